"""What is remembered: all SQL."""
