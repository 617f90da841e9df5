"""The Python client library: synchronous calls to the daemon over its socket. Standard library only."""

from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused, ConnectionLost, NoDaemon
from semantica_daemon.client.subscription import Subscription

__all__ = ["CallRefused", "Client", "ConnectionLost", "NoDaemon", "Subscription"]
