"""`semantica unreserve`: ends a reservation, so that jobs start again."""

from semantica_daemon import prose
from semantica_daemon.cli import reservations
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.client.exit_codes import DATA

SHORTEST = 4  # characters of an id


def run(arguments: Any, terminal: Terminal) -> None:
    with terminal.client() as client:
        active = client.call("reservation.get")["reservation"]
        if active is None and arguments.id is None:
            return terminal.note("nothing is reserved")
        released = client.call("reservation.release", reservation_id=_chosen(arguments.id, active))
    terminal.show(released, [])
    terminal.note(f"released: {released['reserved_by']} had reserved it")


def _chosen(text: str | None, active: Json | None) -> str:
    """The whole id. Without an id only what `semantica reserve` has reserved is released."""
    if active is None or not _is_named(active, text):
        return text or ""
    name = prose.short_id(active["reservation_id"])
    if active["job_id"] is not None:
        hint = f"it ends with the job; `semantica cancel {prose.short_id(active['job_id'])}` ends the job"
        raise CommandFailed(reservations.sentence(active), hint, DATA)
    if text is None and reservations.BY_COMMAND not in active["reserved_by"]:
        hint = f"`semantica unreserve {name}` releases it all the same"
        raise CommandFailed(reservations.sentence(active), hint, DATA)
    return str(active["reservation_id"])


def _is_named(active: Json, text: str | None) -> bool:
    return text is None or (len(text) >= SHORTEST and active["reservation_id"].startswith(text.lower()))


COMMAND = Command(
    "End a reservation, so that jobs start again; without an id, that of `semantica reserve`.",
    run,
    [Option("id RESERVATION", "its id, or the first characters of it", nargs="?")],
    """
  semantica unreserve
  semantica unreserve 3f2a                       also when another program has reserved it""",
)
