"""The figures of scripts/bench and the processes that measure them."""
