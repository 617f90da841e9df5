"""Packages of npm for tests that need them, installed once into the cache folder of pytest."""

import shutil
import subprocess
from pathlib import Path

import pytest


def node_modules(config: pytest.Config, package: str) -> Path:
    """The folder node_modules with `package` (name@version) in it. Skips the test when npm cannot install it."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            pytest.skip(f"NOT TESTED: {tool} is not installed, so nothing was tried with {package}")
    assert config.cache is not None
    folder = config.cache.mkdir(f"npm-{package.replace('/', '-').replace('@', '-')}")
    complete = folder / "complete"
    if not complete.exists():
        if reason := _install(folder, package):
            pytest.skip(f"NOT TESTED: {package} could not be installed: {reason}")
        complete.touch()
    return folder / "node_modules"


def _install(folder: Path, package: str) -> str:
    """Returns why it failed, or an empty text."""
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), package]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=50, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return "npm took longer than 50 s"
    return done.stderr[-300:] if done.returncode else ""
