"""`semantica log`: called by a job, adds a line to its events. `logs` prints what a job has written."""

from semantica_daemon.cli import run_report
from semantica_daemon.cli.command import Any, Command, Option, Terminal


def run(arguments: Any, terminal: Terminal) -> None:
    run_report.send(terminal, "run.log", message=" ".join(arguments.message), level=arguments.level)


OPTIONS = [
    Option("message MESSAGE", "the line", nargs="+"),
    Option("--level {debug,info,warn,error}", "level of the event (info)", default="info"),
]
COMMAND = Command(
    "Add a line to the events of this job; called by the command that the job runs.",
    run,
    OPTIONS,
    """
  semantica log "the cache is cold"
  semantica log --level warn "12 files skipped"

`semantica events --job ID` shows the lines; `semantica events -f --level warn` follows those of all jobs.""",
)
