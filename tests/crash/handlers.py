"""A handler for the crash tests, of a kind that no user should write."""

import time
from typing import Any

from semantica_daemon.engine.handlers import Context
from tests.engine import sample_handlers


async def block(ctx: Context, payload: dict[str, Any]) -> None:
    """Nothing else happens in the daemon meanwhile: what it is told stays unread, what it would say unsaid."""
    time.sleep(payload["ms"] / 1000)  # noqa: ASYNC251


CONFIG = sample_handlers.config(slots=8) + f'block = "{__name__}:block"\n'
