"""What scripts/bench measures, and with what."""
