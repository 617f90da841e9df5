"""Builds C libraries that are loaded before libc into a daemon under test, to see or change its system calls."""

import shutil
import subprocess
from pathlib import Path

import pytest


def build(folder: Path, name: str, source: str) -> Path:
    """The library; skips the test where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip(f"NOT TESTED: {name}, for want of a C compiler")
    file, library = folder / f"{name}.c", folder / f"{name}.so"
    file.write_text(source)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, file, "-ldl"], check=True)
    return library
