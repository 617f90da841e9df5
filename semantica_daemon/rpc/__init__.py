"""The socket: framing, JSON-RPC, connections, and the code behind each method of the wire."""
