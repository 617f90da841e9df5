"""Adds the manual page to the wheel and to the source distribution; `semantica_daemon/cli/man_page.py` writes it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPage(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """An editable installation gets no page: its commands may change at any time."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        page = Path(self._folder.name, "semantica.1")
        command = [sys.executable, "-m", "semantica_daemon.cli.man_page"]
        environment = {**os.environ, "PYTHONPATH": self.root}  # pipx keeps Python from looking into the cwd
        written = subprocess.run(command, cwd=self.root, env=environment, check=True, stdout=subprocess.PIPE).stdout
        page.write_bytes(written)
        if self.target_name == "wheel":
            build_data["shared_data"][str(page)] = "share/man/man1/semantica.1"
        else:
            build_data["force_include"][str(page)] = "man/semantica.1"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()
