"""Persistence: all SQL."""
