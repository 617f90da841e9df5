"""Semantica: a local daemon that runs background work and never loses or repeats it."""

VERSION = "0.1.0"
PROTOCOL = 1
