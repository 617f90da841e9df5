"""What docs/scheduling.md has for copying: its fenced blocks, and a shell in which they can be run for real."""

import os
import re
import subprocess
from pathlib import Path

from tests.cli.command_line import COMMAND, Line

PAGE = (Path(__file__).parent.parent.parent / "docs" / "scheduling.md").read_text()
WITHIN_S = 50


def blocks(language: str, having: str = "") -> list[str]:
    """In the order of the page."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [block for block in found if having in block]


class Shell:
    """A home, a repository of git in it, and `semantica` on the PATH, talking to the daemon of `line`."""

    def __init__(self, line: Line, home: Path) -> None:
        self.home = home
        self.repository = home / "repository"
        self.commands = home / "bin"
        self.commands.mkdir(parents=True)
        self.repository.mkdir()
        clean = {name: value for name, value in line.env.items() if not name.startswith(("GIT_", "XDG_"))}
        mine = {"HOME": str(home), "PATH": f"{self.commands}:{os.environ['PATH']}", "GIT_CONFIG_NOSYSTEM": "1"}
        self.env = {**clean, **mine, "HISTFILE": "", "TERM": "dumb"}
        self.provide(f'exec {" ".join(COMMAND)} "$@"')
        self("git config --global user.name me; git config --global user.email me@example.org")
        self("git config --global init.defaultBranch main; git config --global advice.detachedHead false")

    def provide(self, script: str) -> None:
        """`semantica` is this."""
        (self.commands / "semantica").write_text(f"#!/bin/sh\n{script}\n")
        (self.commands / "semantica").chmod(0o755)

    def __call__(self, script: str, shell: tuple[str, ...] = ("sh", "-c"), stdin: str = "") -> str:
        """Its output; the script has to succeed and to close its streams."""
        done = subprocess.run(
            [*shell, script] if not stdin else list(shell),
            cwd=self.repository, env=self.env, input=stdin, capture_output=True, text=True, timeout=WITHIN_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr
