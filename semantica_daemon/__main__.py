"""`semanticad`, also `python -m semantica_daemon`: the daemon in the foreground, logging to stderr or a file."""

import argparse
import os
import signal
import sys
from pathlib import Path

# Until `serving` reloads the configuration on it, SIGHUP does nothing. Not SIG_IGN, which the jobs would inherit.
signal.signal(signal.SIGHUP, lambda number, frame: None)

from semantica_daemon import VERSION, quick_start, serving  # noqa: E402, F401
from semantica_daemon.errors import StartRefused  # noqa: E402

EPILOG = """\
Everything lies where the XDG folders say, or in $SEMANTICA_HOME when that is set.
SIGTERM stops it after the running jobs had their grace period; a second one stops it at once.

exit codes: 0 stopped, 64 usage, 70 internal error, 75 another daemon runs or the database is held,
            77 permission, 78 configuration or schema
"""


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="semanticad",
        description="Run the Semantica daemon in the foreground.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--config", type=Path, metavar="FILE", help="a config.toml other than the usual one")
    found.add_argument("--check", action="store_true", help="check the configuration file and start nothing")
    found.add_argument(
        "--log-file", type=Path, metavar="FILE", help="log there, not to stderr; at 10 MB it becomes FILE.1 … FILE.3"
    )
    found.add_argument(
        "--ready-fd", type=descriptor, metavar="N", help='write "ready", or why it cannot be, to this open descriptor'
    )
    found.add_argument("--version", action="version", version=f"semanticad {VERSION}")
    return found


def descriptor(text: str) -> int:
    try:
        os.fstat(int(text))
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(f"{text} is no open descriptor") from None
    return int(text)


def main() -> None:
    """Exits with os._exit, so that a failed start does not close (and checkpoint) the database."""
    arguments = parse(sys.argv[1:])
    try:
        serving.main(arguments.config, arguments.check, arguments.log_file, arguments.ready_fd)
    except StartRefused as refused:
        print(f"semanticad: {refused}", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(refused.exit_code)


def parse(argv: list[str]) -> argparse.Namespace:
    try:
        return parser().parse_args(argv)
    except SystemExit as leave:
        raise SystemExit(64 if leave.code == 2 else leave.code) from None


if __name__ == "__main__":
    main()
