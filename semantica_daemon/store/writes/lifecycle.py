"""Emits daemon.started, daemon.reloaded and daemon.stopping; `nothing` forces a commit."""

from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.reservations import release_direct


def started(tx: Tx, version: str) -> None:
    tx.announce("daemon.started", f"semanticad {version} is ready", {"version": version})


def reloaded(tx: Tx, facts: dict[str, list[str]]) -> None:
    names = ", ".join(facts["changed"]) or "nothing"
    tx.announce("daemon.reloaded", f"the config file was read again; changed: {names}", facts)


def stopping(tx: Tx, reason: str) -> None:
    release_direct(tx, "the daemon stops")
    tx.announce("daemon.stopping", reason)


def nothing(tx: Tx, request: None) -> None:
    """Does nothing. When it is committed, all commands that were submitted before it are too."""
