"""`semantica progress`: called by a job, reports how far its run is."""

from semantica_daemon.cli import run_report
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed


def run(arguments: Any, terminal: Terminal) -> None:
    fields: Json = {**_percent_and_message(arguments.percent, arguments.message), "phase": arguments.phase}
    if arguments.items is not None:
        fields |= arguments.items
    given = {name: value for name, value in fields.items() if value is not None}
    if not given:
        raise CommandFailed("progress: there is nothing to report", "semantica progress 50 'half way'")
    run_report.send(terminal, "run.progress", **given)


def _percent_and_message(first: str | None, second: str | None) -> Json:
    """`first` is 50, 12.5 or 50%; the message if it is not a number and stands alone."""
    if first is None:
        return {}
    try:
        value = float(first.removesuffix("%"))
    except ValueError:
        if second is None:
            return {"message": first}
        value = -1
    if not 0 <= value <= 100:
        raise CommandFailed(f"progress: {first!r} is not a number from 0 to 100", "semantica progress 50 'half way'")
    return {"percent": value, "message": second}


def items(text: str) -> Json:
    """3 or 3/12."""
    done, slash, total = text.partition("/")
    if not done.isdecimal() or (slash and not total.isdecimal()):
        raise ValueError(f"{text!r} is not a number of items: write 3 or 3/12")
    return {"items_completed": int(done), "items_total": int(total) if slash else None}


OPTIONS = [
    Option("percent PERCENT", "from 0 to 100; may be left out", nargs="?"),
    Option("message MESSAGE", "a sentence about it", nargs="?"),
    Option("--items DONE[/TOTAL]", "how many items are done, and of how many", items),
    Option("--phase TEXT", "what the job does now"),
]
COMMAND = Command(
    "Report how far this job is; called by the command that the job runs. What is left out keeps its last value.",
    run,
    OPTIONS,
    """
  semantica progress 50 "half way"
  semantica progress --items 3/12 --phase compiling
  semantica progress --items 4/12 "main.c"

`semantica run` shows the progress on a terminal; `semantica list`, `status` and `show` have it too.""",
)
