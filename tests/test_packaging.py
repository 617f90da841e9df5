"""The wheel carries the migrations and the loader finds them there; the source distribution carries everything that
a developer needs. The distribution is called semantica-daemon: `semantica` on PyPI is another project."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from semantica_daemon.cli.commands import COMMANDS
from semantica_daemon.store.migrate import folder

ROOT = Path(__file__).parent.parent
NAMES = sorted(file.name for file in (ROOT / "migrations").glob("*.sql"))
ASK = "from semantica_daemon.store.migrate import folder; print(*sorted(f.name for f in folder().glob('*.sql')))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(ROOT)]
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}  # as pipx builds it
    subprocess.run(command, env=environment, check=True, capture_output=True)
    (made,) = target.glob("*.whl")
    return made


def test_the_wheel_carries_every_migration(wheel: Path) -> None:
    inside = zipfile.ZipFile(wheel).namelist()
    assert sorted(Path(name).name for name in inside if name.startswith("semantica_daemon/migrations/")) == NAMES


def test_the_wheel_is_called_semantica_daemon_and_carries_its_license_types_and_units(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    found = email.message_from_bytes(archive.read(metadata))
    assert (found["Name"], found["License-Expression"]) == ("semantica-daemon", "Apache-2.0")
    inside = set(archive.namelist())
    units = ("systemd/semantica.socket", "systemd/semantica.service", "launchd/semantica.daemon.plist")
    wanted = {"semantica_daemon/py.typed", *(f"semantica_daemon/units/{name}" for name in units)}
    assert wanted <= inside
    assert any(name.endswith("/licenses/LICENSE") for name in inside)


def test_the_wheel_carries_a_manual_page_of_every_command_that_man_renders(wheel: Path, tmp_path: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("data/share/man/man1/semantica.1")]
    (tmp_path / "semantica.1").write_bytes(archive.read(name))
    if shutil.which("man") is None:
        pytest.skip("NOT TESTED: man is not installed")
    env = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MANROFFOPT": "-ww", "MANPAGER": "cat"}
    command = ["man", "--warnings", "-l", str(tmp_path / "semantica.1")]
    told = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert told.stderr == ""
    missing = [name for name in COMMANDS if f"   semantica {name}" not in told.stdout]
    assert missing == ["ls"]
    assert "-Q, --queue NAME" in told.stdout
    assert "SUPPRESS" not in told.stdout, "options without a help text are left out"


WRONG = re.compile(r"\binstall +(-\S+ +)*['\"]?semantica(?!-daemon)\b")


def test_no_text_tells_to_install_the_other_project() -> None:
    assert WRONG.search("pip install -U 'semantica[desktop]'")
    assert not WRONG.search("pipx install semantica-daemon")
    folders = ("docs", "semantica_daemon", "scripts", "systemd", ".ci", ".github")
    files = [*ROOT.glob("*.*"), *(file for folder in folders for file in (ROOT / folder).rglob("*"))]
    read = {file: file.read_bytes() for file in files if file.is_file() and file.suffix != ".pyc"}
    assert len(read) > 200
    assert [file.name for file, content in read.items() if WRONG.search(content.decode("utf-8", "replace"))] == []


TOOLS = {"pipx": ["pipx", "install"], "uv": ["uv", "tool", "install"]}


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_a_tool_installer_puts_the_command_on_the_path(wheel: Path, tmp_path: Path, tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"NOT TESTED: {tool} is not installed")
    folders = {"HOME": str(tmp_path), "PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    env = {**os.environ, **folders, "UV_TOOL_DIR": str(tmp_path / "uv"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    subprocess.run([*TOOLS[tool], str(wheel)], check=True, capture_output=True, env=env)
    told = subprocess.run(
        [tmp_path / "bin" / "semantica", "version"], check=True, capture_output=True, env=env, text=True
    )
    assert told.stdout.startswith("semantica ")
    units = subprocess.run(
        [tmp_path / "bin" / "semantica", "service", "install", "--print"], check=True, capture_output=True, env=env
    )
    assert b"Type=notify" in units.stdout


def test_the_loader_finds_them_in_an_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    told = subprocess.run([sys.executable, "-c", ASK], check=True, capture_output=True, env=environment, cwd=tmp_path)
    assert told.stdout.decode().split() == NAMES


def test_the_loader_finds_them_beside_the_package_in_an_editable_install() -> None:
    assert folder() == ROOT / "migrations"


def test_the_source_distribution_carries_docs_tests_and_scripts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "README.md",
        "LICENSE",
        "systemd/strict.conf",
        "launchd/semantica.daemon.plist",
        "man/semantica.1",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        ".ci/run",
        ".github/workflows/ci.yml",
    }
    for part in ("docs", "migrations", "scripts"):
        wanted |= {f"{part}/{file.name}" for file in (ROOT / part).iterdir() if file.is_file()}
    assert wanted <= inside
    assert "tests/conftest.py" in inside
