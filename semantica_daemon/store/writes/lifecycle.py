"""daemon.started and daemon.stopping, told to the stream; and the command that only wants the commit."""

from semantica_daemon.store.tx import Tx


def started(tx: Tx, version: str) -> None:
    tx.announce("daemon.started", f"semanticad {version} is ready", {"version": version})


def stopping(tx: Tx, reason: str) -> None:
    tx.announce("daemon.stopping", reason)


def nothing(tx: Tx, request: None) -> None:
    """Everything that was submitted before it is committed by then."""
