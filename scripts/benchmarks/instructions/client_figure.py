"""The figure of the command line: instructions of one whole `semantica add -- true`, beside bare interpreters."""

import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

from benchmarks.instructions import valgrind
from benchmarks.processes import Daemon

ARGUMENTS = ["add", "--", "true"]


def add() -> dict[str, float]:
    """A daemon runs beside it, without valgrind. `add` is counted without `site`, whose cost depends on what else is
    installed; `add-installed` is the program that pip has made, which imports `re` by itself."""
    installed = str(Path(sys.executable).with_name("semantica"))
    with tempfile.TemporaryDirectory(prefix="si-") as folder:
        daemon = Daemon(Path(folder) / "home", slots=1)
        try:
            daemon.start().call("queue.pause", queue="default")
            home = str(daemon.home)
            valgrind.run([installed, *ARGUMENTS], SEMANTICA_HOME=home)
            return {
                "add": valgrind.count([sys.executable, "-S", "-c", program(), *ARGUMENTS], SEMANTICA_HOME=home),
                "add-installed": valgrind.count([installed, *ARGUMENTS], SEMANTICA_HOME=home),
                "python -S": valgrind.count([sys.executable, "-I", "-S", "-c", "pass"]),
                "python": valgrind.count([sys.executable, "-I", "-c", "pass"]),
            }
        finally:
            daemon.end()


def program() -> str:
    """What the installed program does, less its own imports."""
    (found,) = entry_points(group="console_scripts", name="semantica")
    return f"import sys; from {found.module} import {found.attr} as main; sys.exit(main())"
