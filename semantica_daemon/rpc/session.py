"""What a method may do with the connection that called it."""

from typing import Any, Protocol

from semantica_daemon.rpc.subscriptions import Subscriptions


class Session(Protocol):
    @property
    def subscriptions(self) -> Subscriptions: ...

    async def turn(self) -> None:
        """Waits until this call may load its reply into memory. A method that `waits` calls this when it is done; for
        all others the connection calls it before they begin."""

    async def notify(self, method: str, params: Any) -> None:
        """Sends a notification, and waits while the client does not read."""

    async def request(self, method: str, params: Any, timeout_s: float = ...) -> Any:
        """Sends a request to the client and returns its result."""

    def cancel_call(self, request_id: Any) -> None: ...

    def close(self) -> None: ...

    def close_when_done(self) -> None:
        """Closes once everything is replied to, after the client has half-closed."""
