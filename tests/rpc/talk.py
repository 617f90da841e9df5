"""A handler that says something at every level, for the tests of the stream's filters."""

from typing import Any

from semantica_daemon.engine.handlers import Context


async def talk(ctx: Context, payload: dict[str, Any]) -> None:
    ctx.log("whisper", "debug")
    ctx.log("said")
    ctx.log("careful", "warn")
    ctx.log("broken", "error")
