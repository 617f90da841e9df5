"""JSON-RPC server: everything that knows the socket."""
