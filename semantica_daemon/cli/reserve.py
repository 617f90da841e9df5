"""`semantica reserve`: keeps all jobs from starting, until `semantica unreserve` or while a command runs, as flock(1)
does. `held_command` runs the command."""

from semantica_daemon import prose
from semantica_daemon.cli import reservations
from semantica_daemon.cli.command import Any, Command, Option, Terminal
from semantica_daemon.cli.format import now
from semantica_daemon.cli.times import duration
from semantica_daemon.client.client import Client

USUAL_MS = 600_000
LONGEST_HOLDER = 200
LEASE_MS = 60_000  # of a reservation that is extended while its command runs


def run(arguments: Any, terminal: Terminal) -> int | None:
    if not arguments.command:
        with terminal.client() as client:
            made = _acquire(client, terminal, arguments, USUAL_MS)
        terminal.show(made, [made["reservation_id"]])
        until = prose.instant(made["expires_at"], now())
        terminal.note(f"no other job starts before `semantica unreserve`, or {until}")
        return None
    from semantica_daemon.cli import held_command  # noqa: PLC0415

    with terminal.client() as client:
        made = _acquire(client, terminal, arguments, LEASE_MS)
    lease_ms = LEASE_MS if arguments.limit is None else None
    return held_command.run(arguments.command, terminal, made["reservation_id"], _holder(arguments), lease_ms)


def _acquire(client: Client, terminal: Terminal, arguments: Any, usual_ms: int) -> Any:
    ttl_ms = usual_ms if arguments.limit is None else arguments.limit
    fields = {"reserved_by": _holder(arguments), "ttl_ms": ttl_ms}
    return reservations.call(client, terminal, "reservation.acquire", arguments.wait or 0, **fields)


def _holder(arguments: Any) -> str:
    """How others see it: by the name that was given, or by the command."""
    if arguments.name is not None:
        return f"{arguments.name} ({reservations.BY_COMMAND})"
    words = [reservations.BY_COMMAND, *(["--", *arguments.command] if arguments.command else [])]
    return " ".join(words).encode("utf-8", "replace").decode()[:LONGEST_HOLDER]


COMMAND = Command(
    "Let no other job start: until `semantica unreserve`, or while a command runs. Running jobs go on, and the waiting "
    "ones keep their order. Without a command it prints the id of the reservation.",
    run,
    [
        Option("--for D", "it ends by itself after this (10m; with a command: when the command has ended)", duration,
               dest="limit"),
        reservations.WAIT,
        Option("--name NAME", "who reserves, as `semantica status` and `semantica why` show it"),
    ],
    """
  semantica reserve -- ./deploy.sh               no job starts while it runs
  semantica reserve --wait 1m -- make bench      first waits for another reservation to end
  semantica reserve --for 30m                    for half an hour, or until `semantica unreserve`

The exit code is that of the command; 75 if something else is reserved. Jobs that the command adds wait as well.
`semantica run --now` runs a command as a job ahead of all others.""",
    "[options] [-- COMMAND [ARGUMENT …]]",
    after_dashes=True,
)  # fmt: skip
