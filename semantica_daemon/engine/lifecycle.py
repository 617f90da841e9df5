"""The status of the daemon (starting, ready, stopping), and the request to stop it."""

import asyncio
from typing import Literal

import structlog

log = structlog.get_logger()


class Lifecycle:
    def __init__(self) -> None:
        self.status: Literal["starting", "ready", "stopping"] = "starting"
        self.reason = "stopping"
        self.stop = asyncio.Event()
        self.stop_now = asyncio.Event()

    def request_stop(self, reason: str) -> None:
        """The first request begins the shutdown; the second ends the grace period of the runs."""
        if self.stop.is_set():
            self.stop_now.set()
            return
        log.info("stopping", reason=reason)
        self.reason = reason
        self.stop.set()
