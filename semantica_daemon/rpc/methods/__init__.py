"""The code behind each method, one file per family. A family is given the few parts it needs by its constructor."""
