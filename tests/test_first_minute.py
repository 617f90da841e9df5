"""The first minute of a new user: a fresh clone on a machine that has Python and git, and one command."""

import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from tests.client.callers import daemons, no_daemon_left

ROOT = Path(__file__).resolve().parent.parent
# How this machine gets at packages; nothing else of the environment is there.
INDEX = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_", "REQUESTS_CA_BUNDLE")


def clone(target: Path) -> None:
    """HEAD, and over it whatever is changed here, so that the test is about this tree."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("NOT TESTED: this is no clone, or there is no git")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)
    for name in _listed("--modified", "--others", "--exclude-standard"):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    for name in _listed("--deleted"):
        (target / name).unlink()


def _listed(*options: str) -> list[str]:
    command = ["git", "-C", str(ROOT), "ls-files", "-z", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")[:-1]


def bare(home: Path) -> dict[str, str]:
    """An environment with nothing in it. The runtime folder is named, lest it be the one of whoever runs the tests."""
    for name in ("run", "bin", "home"):
        (home / name).mkdir(mode=0o700)
    ours = {name: value for name, value in os.environ.items() if name.upper().startswith(INDEX)}
    for settings in (Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf"):
        if settings.exists():
            ours.setdefault("PIP_CONFIG_FILE", str(settings))
    folder = os.path.dirname(os.path.realpath(sys.executable))
    return ours | {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run")}


def skip_without_index(env: dict[str, str], target: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(target), "hatchling"]
    if subprocess.run(command, env=env, capture_output=True).returncode:
        warnings.warn("NOT TESTED: the first minute of a new user, as no package can be downloaded here", stacklevel=2)
        pytest.skip("NOT TESTED: no package can be downloaded here")


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_in_a_fresh_clone_one_command_does_everything_also_twice_at_once(home: Path) -> None:
    here, env = home / "a clone", bare(home)
    clone(here)
    (home / "bin" / "semantica").symlink_to(here / "scripts" / "semantica")
    with no_daemon_left(home):
        first = start_echo("hello", ["./scripts/semantica"], here, env)
        second = start_echo("there", [str(home / "bin" / "semantica")], home / "home", env)
        told, told_too = first.communicate(timeout=250), second.communicate(timeout=250)
        if "pip could not install" in told[1] + told_too[1]:
            skip_without_index(env, home)
        assert (first.returncode, told[0]) == (0, "hello\n"), told
        assert (second.returncode, told_too[0]) == (0, "there\n"), told_too
        assert (told[1] + told_too[1]).count("making .venv") == 1
        assert (told[1] + told_too[1]).count("started the daemon") == 1
        assert len(daemons(home)) == 1
        began = time.monotonic()
        third = start_echo("again", ["./scripts/semantica"], here, env)
        assert third.communicate(timeout=20) == ("again\n", "")
        assert time.monotonic() - began < 3, "what is made is not made again"
        assert (here / ".venv" / "bin" / "semanticad").exists()


def start_echo(word: str, command: list[str], cwd: Path, env: dict[str, str]) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*command, "run", "--", "echo", word], cwd=cwd, env=env, stdout=pipe, stderr=pipe, text=True
    )


@pytest.mark.parametrize(("found", "words"), [("echo Python 3.9.2; exit 1", "Python 3.9.2"), (None, "is needed:")])
def test_without_a_python_that_is_new_enough_it_says_so(home: Path, found: str | None, words: str) -> None:
    (home / "scripts").mkdir()
    (home / "bin").mkdir()
    for name in ("setup", "semantica"):
        shutil.copy2(ROOT / "scripts" / name, home / "scripts")
    shutil.copy2(ROOT / "pyproject.toml", home)
    for name in ("bash", "dirname", "cksum", "touch", "mkdir"):
        (home / "bin" / name).symlink_to(shutil.which(name) or name)
    if found:
        (home / "bin" / "python3").write_text(f"#!{shutil.which('bash')}\n{found}\n")
        (home / "bin" / "python3").chmod(0o755)
    command = [str(home / "scripts" / "semantica"), "--version"]
    left = subprocess.run(command, env={"PATH": str(home / "bin")}, capture_output=True, text=True)
    assert (left.returncode, left.stdout) == (69, "")
    assert "Python 3.11 or newer" in left.stderr
    assert words in left.stderr
    assert not (home / ".venv").exists()
