"""What is true: pure values and rules; no I/O, no clock, no async, no logging."""
