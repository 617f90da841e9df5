"""Renders docs/demo.svg: runs the commands below for real, in a home of their own, and draws what they print.

Run it after `scripts/setup` as `.venv/bin/python docs/demo.py`.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

DOCS = Path(__file__).resolve().parent
SEMANTICA = DOCS.parent / "scripts" / "semantica"
COLUMNS = 88

# `{pid}` is the daemon's process. A line that begins with `-` is run, but not drawn.
SESSION = """
- semantica run -- true
# ten saves of one file: one run, of the newest
for n in 1 2 3 4 5 6 7 8 9 10; do
  echo "x = $n" >> a.py
  semantica add -q --newest-wins a.py --debounce 1s -- wc -l a.py > /dev/null
done
semantica why @last
semantica wait @last && semantica logs @last
semantica list -n 3
# the daemon is killed while tests run: nothing is lost, nothing runs twice at once
semantica add -q --attempts 2 -- sh -c 'sleep 2; echo all tests passed'
- sleep 1
kill -9 {pid}
semantica why @last
semantica wait @last && semantica logs @last
"""


def commands() -> list[str]:
    """The lines of the session, with a `for … done` as one."""
    found: list[str] = []
    for line in SESSION.strip().splitlines():
        if found and found[-1].startswith("for ") and not found[-1].endswith("\ndone"):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


def run(command: str, env: dict[str, str], cwd: Path) -> str:
    """Everything the command writes to its terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    with subprocess.Popen(["bash", "-c", command], env=env, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        written = b""
        while chunk := read(ours):
            written += chunk
    os.close(ours)
    return written.decode().replace("\r\n", "\n")


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux reports that the other end of a terminal is closed
        return b""


def pid(env: dict[str, str], cwd: Path) -> str:
    found = re.search(r"pid (\d+)", run("semantica status", env, cwd))
    assert found, "semantica status names the daemon's process"
    return found[1]


def draw(console: Console, env: dict[str, str], cwd: Path) -> None:
    for line in commands():
        hidden, command = line.startswith("- "), line.removeprefix("- ")
        if "{pid}" in command:
            command = command.format(pid=pid(env, cwd))
        if not hidden:
            comment = command.startswith("#")
            shown = command if comment else "$ " + command.replace("\n", "\n> ")
            console.print(Text(shown, "dim" if comment else "bold"))
        written = run(command, env, cwd)
        if written and not hidden:
            console.print(Text.from_ansi(with_short_paths(written.rstrip("\n"), cwd)))


def with_short_paths(written: str, home: Path) -> str:
    """Shows paths below the home as ~/…, as wide as they were, so that tables stay in line."""
    return re.sub(
        rf"{home}(\S*)( ?)", lambda found: f"~{found[1]}{found[2]}".ljust(len(found[0]) if found[2] else 0), written
    )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="demo-") as folder, open(os.devnull, "w") as nowhere:
        here = Path(folder)
        (here / "bin").mkdir()
        (here / "bin" / "semantica").symlink_to(SEMANTICA)
        env = {"PATH": f"{here}/bin:{os.environ['PATH']}", "HOME": folder, "TERM": "xterm-256color"}
        env |= {"SEMANTICA_HOME": f"{here}/home", "LANG": "C.UTF-8"}
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        try:
            draw(console, env, here)
        finally:
            run("semantica stop", env, here)
    drawn = console.export_svg(title="semantica", unique_id="demo")
    # The fonts would be fetched from elsewhere; without them the reader's own monospace font is used.
    (DOCS / "demo.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))


if __name__ == "__main__":
    main()
