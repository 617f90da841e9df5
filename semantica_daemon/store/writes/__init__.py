"""One file a verb: a plain function of a transaction and a request."""
