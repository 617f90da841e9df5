"""What happens over time: async, no SQL."""
