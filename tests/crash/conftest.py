"""A journal outside of every home."""

from pathlib import Path

import pytest

from tests.crash.journal import Journal


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)
