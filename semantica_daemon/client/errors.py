"""How a call can fail: the daemon refuses it, the connection breaks, or there is no daemon."""

from semantica_daemon.client.exit_codes import NO_DAEMON
from semantica_daemon.client.json_types import Json


class CallRefused(Exception):
    """The daemon replied with an error: `code` is a number, `data` has the stable code, a hint, `retryable` …"""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data: Json = data or {}


class ConnectionLost(Exception):
    """The daemon closed the connection or stopped answering: the last call may or may not have had an effect."""


class NoDaemon(Exception):
    """No daemon is running and none could be started. `message` says what to do, `exit_code` is one of sysexits."""

    def __init__(self, message: str, exit_code: int = NO_DAEMON) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class NotListening(Exception):
    """There is no socket, or no process listens on it."""
