"""`semantica archive`: deletes the files of jobs that have ended."""

from semantica_daemon.cli import changes

WORDING = changes.Wording(
    "ended",
    "job {} is archived: its files are deleted",
    "are archived: their files are deleted",
    "archived",
    "is left as it is: it has not ended, or is archived already",
)
COMMAND = changes.command(
    "archive",
    "ended",
    WORDING,
    "Delete the folders of jobs that have ended, with their output and logs. How they ended is still known: "
    "`semantica show` shows it, `semantica list --archived` lists them. Prints the ids of those it archives.",
    """
  semantica archive @last
  semantica archive -Q build --dry-run
  semantica archive --tag nightly""",
)
