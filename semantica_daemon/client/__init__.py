"""Who asks: the command line `semantica` and a small synchronous client for scripts. Standard library only."""

from semantica_daemon.client.connection import CallRefused, Client, ConnectionLost, NoDaemon, Subscription

__all__ = ["CallRefused", "Client", "ConnectionLost", "NoDaemon", "Subscription"]
