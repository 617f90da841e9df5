"""Processes of this user as /proc lists them: identity, run marks, and ending the orphans of a run. Standard library
only: the supervisor and the daemon both use it."""
