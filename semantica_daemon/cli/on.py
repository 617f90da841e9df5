"""`semantica on`: runs a command at every event; `semantica add --on-event` waits for the next one only."""

from semantica_daemon.cli import job_options, repeated_command, schedule
from semantica_daemon.cli.command import Any, Command, Group, Option, Terminal


def run(arguments: Any, terminal: Terminal) -> None:
    repeated_command.put(arguments, terminal, "on", schedule.at_event(arguments.event), f"on {arguments.event[0]}")


EVENT = Option("event KEY[=VALUE]", "the event; without a value, any value of it", job_options.event)
SCHEDULE = Group("the schedule", [
    Option("--name NAME", "name of the schedule and its template (default: by the event and the command)"),
    schedule.OVERLAP, schedule.JITTER,
])  # fmt: skip
COMMAND = Command(
    "Run a command at every event, from now on. The command gets $SEMANTICA_EVENT_KEY and $SEMANTICA_EVENT_VALUE. "
    "Makes a schedule and prints its name; `semantica add --on-event` waits for the next event only.",
    run,
    [EVENT, *job_options.OF_TEMPLATE, SCHEDULE],
    """
  semantica on git:commit -- make docs
  semantica on git:commit=main --overlap supersede -- make test
  semantica on file:saved --name lint -- sh -c 'lint "$SEMANTICA_EVENT_VALUE"'
  semantica emit file:saved=a.py                    runs it
  semantica schedule disable lint                   until `semantica schedule enable lint`
  semantica schedule delete lint                    for good""",
    "KEY[=VALUE] [options] -- COMMAND [ARGUMENT …]",
    after_dashes=True,
)
