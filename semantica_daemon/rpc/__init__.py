"""What is said: everything that knows the socket."""
