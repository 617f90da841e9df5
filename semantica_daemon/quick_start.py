"""Imported before all other modules of the daemon, which then take a quarter less time to import."""

import gc
import sys
from importlib import import_module

# Allocations between two garbage collections: at the default of 700 a busy daemon would run several for each batch, and
# importing would run dozens that find nothing.
GARBAGE_AFTER = 20_000
gc.set_threshold(GARBAGE_AFTER)

# structlog imports rich where it is installed, for tracebacks that the daemon does not print. A handler may import it.
if "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]
    import_module("structlog")
    del sys.modules["rich"]
