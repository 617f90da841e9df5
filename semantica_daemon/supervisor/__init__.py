"""The supervisor: a small process, standard library only, that spawns, reads and ends the commands of jobs."""
