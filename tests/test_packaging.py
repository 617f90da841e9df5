"""The wheel carries the migrations and the loader finds them there; the source distribution carries everything that
a developer needs."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from semantica_daemon.store.migrate import folder

ROOT = Path(__file__).parent.parent
NAMES = sorted(file.name for file in (ROOT / "migrations").glob("*.sql"))
ASK = "from semantica_daemon.store.migrate import folder; print(*sorted(f.name for f in folder().glob('*.sql')))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (made,) = target.glob("*.whl")
    return made


def test_the_wheel_carries_every_migration(wheel: Path) -> None:
    inside = zipfile.ZipFile(wheel).namelist()
    assert sorted(Path(name).name for name in inside if name.startswith("semantica_daemon/migrations/")) == NAMES


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
    wanted = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", ".ci/run", ".github/workflows/ci.yml"}
    for part in ("docs", "migrations", "scripts"):
        wanted |= {f"{part}/{file.name}" for file in (ROOT / part).iterdir() if file.is_file()}
    assert wanted <= inside
    assert "tests/conftest.py" in inside
