"""What `reserve`, `unreserve`, `run --now` and `status` share: calls that may wait for a reservation, and its words."""

from semantica_daemon import prose
from semantica_daemon.cli.command import Any, Json, Option, Terminal
from semantica_daemon.cli.format import now
from semantica_daemon.cli.times import duration
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused

BY_COMMAND = "semantica reserve"  # a part of the holder's name, if that command has acquired it
WAIT = Option("--wait D", "wait so long while something else is reserved (default: not at all)", duration)


def call(client: Client, terminal: Terminal, method: str, wait_ms: int, **params: Any) -> Json:
    """A call that needs a reservation. If there is one already it is named, before this command waits for its end."""
    try:
        done: Json = client.call(method, **params, wait_ms=0)
    except CallRefused as refused:
        if refused.data.get("code") != "E_RESERVED" or not wait_ms:
            raise
        if "reserved_by" in refused.data:
            terminal.note(f"{sentence(refused.data)}; waiting up to {prose.duration(wait_ms)}")
        done = client.call(method, **params, wait_ms=wait_ms)
    return done


def sentence(reservation: Json) -> str:
    """reserved by deploy until 14:30:00"""
    since = now()
    facts = {**reservation, "kind": "reserved", "at": reservation["expires_at"]}
    return prose.reason(facts, since, lambda at: prose.instant(at, since))
