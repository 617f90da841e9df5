"""`semantica hold`: keeps waiting jobs from starting until `semantica release`."""

from semantica_daemon.cli import changes

WORDING = changes.Wording(
    "waiting",
    "job {0} is held; `semantica release {0}` lets it start",
    "are held",
    "held",
    "is left as it is: it has started or ended, or is held already",
)
COMMAND = changes.command(
    "hold",
    "waiting",
    WORDING,
    "Keep waiting jobs from starting until they are released. They keep what they wait for; a deadline still passes. "
    "Prints the ids of those it holds. `semantica add --hold` adds a job that is held.",
    """
  semantica hold @last
  semantica hold -Q build --dry-run
  semantica hold --tag nightly && semantica release --tag nightly""",
)
