"""Async runtime: what happens over time. No SQL."""
