"""`semantica release`: lets held jobs start."""

from semantica_daemon.cli import changes

WORDING = changes.Wording("held", "job {} is released", "are released", "released", "is not held")
COMMAND = changes.command(
    "release",
    "held",
    WORDING,
    "Let held jobs start. Each goes to the back of its priority, or goes on waiting for its time, event or parent. "
    "Prints the ids of those it releases.",
    """
  semantica release @last
  semantica release -Q build
  semantica list --held -q | xargs semantica release""",
)
