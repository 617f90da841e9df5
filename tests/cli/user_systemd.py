"""A systemd of its own for one user, as a login starts it, in a mount namespace and a control group of its own."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.harness import PATIENCE_S

SYSTEMD = "/usr/lib/systemd/systemd"
# systemd takes over the control group that it is started in, with every process in it: so it needs one of its own.
# It starts for a user only where /run/systemd/system is.
START = f"""
set -e
top=/sys/fs/cgroup
[ -e $top/cgroup.procs ] || top=/sys/fs/cgroup/systemd
for folder in $top $(ls -d /sys/fs/cgroup/unified 2> /dev/null); do
  mkdir -p "$folder/$1"
  echo $$ > "$folder/$1/cgroup.procs"
done
grep -q "name=systemd:/$1\\$" /proc/self/cgroup || grep -q "^0::/$1\\$" /proc/self/cgroup
[ -d /run/systemd/system ] || mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
exec {SYSTEMD} --user --log-target=null
"""


class UserSystemd:
    def __init__(self, home: Path) -> None:
        self.home = home
        self._group = f"semantica-test-{os.getpid()}-{home.name}"
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("SEMANTICA_", "XDG_", "DBUS_"))
        }
        self.env = clean | {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run")}
        (home / "run").mkdir(mode=0o700)
        self._process: subprocess.Popen[bytes] | None = None

    def login(self) -> None:
        """Starts it, and waits until it has started what it starts at login."""
        if not (os.path.exists(SYSTEMD) and shutil.which("unshare") and shutil.which("systemctl")):
            pytest.skip("NOT TESTED: systemd is not installed")
        command = ["unshare", "--mount", "bash", "-c", START, "bash", self._group]
        null = subprocess.DEVNULL
        self._process = subprocess.Popen(command, env=self.env, cwd="/", stdin=null, stdout=null, stderr=null)
        until = time.monotonic() + PATIENCE_S
        while self("show", "--property=SystemState", "--value") not in ("running", "degraded"):
            if self._process.poll() is not None or time.monotonic() > until:
                pytest.skip("NOT TESTED: systemd does not start here as the manager of a user")
            time.sleep(0.05)

    def __call__(self, *words: str) -> str:
        done = subprocess.run(["systemctl", "--user", *words], env=self.env, capture_output=True, text=True)
        return done.stdout.strip()

    def logout(self) -> None:
        """It stops every service, and ends."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(PATIENCE_S)

    def remove(self) -> None:
        self.logout()
        top = Path("/sys/fs/cgroup")
        for folder in [*top.glob(self._group), *top.glob(f"*/{self._group}")]:
            for group, _, _ in os.walk(folder, topdown=False):
                os.rmdir(group)
