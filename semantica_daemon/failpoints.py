"""Named places where a test can stop the daemon: SEMANTICA_FAILPOINT=after_commit_before_reply:kill[:N].

`kill` is SIGKILL to ourselves, `raise` a RuntimeError; N lets the first N - 1 passages go by.
"""

import os
import signal

NAMES = (
    "before_commit",
    "after_commit_before_reply",
    "after_claim_before_start",
    "after_spawn_before_pid_commit",
    "after_run_before_finish",
    "during_migration",
    "during_sync",
    "during_checkpoint",
    "during_backup",
)


class Failpoints:
    def __init__(self, setting: str) -> None:
        name, _, rest = setting.partition(":")
        action, _, passages = rest.partition(":")
        passages = passages or "1"
        if setting and (name not in NAMES or action not in ("kill", "raise") or not passages.isdigit()):
            raise ValueError(f"SEMANTICA_FAILPOINT={setting}: expected NAME:kill|raise[:N], NAME one of {NAMES}")
        self.name = name
        self._action = action
        self._left = int(passages)

    def hit(self, name: str) -> None:
        if name != self.name:
            return
        self._left -= 1
        if self._left != 0:
            return
        if self._action == "raise":
            raise RuntimeError("failpoint")
        os.kill(os.getpid(), signal.SIGKILL)


_armed = Failpoints(os.environ.get("SEMANTICA_FAILPOINT", ""))
hit = _armed.hit
