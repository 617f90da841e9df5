"""Exit codes: those of sysexits for a command that fails, those of a shell for the end of a job."""

USAGE, DATA, NO_DAEMON, INTERNAL, TEMPORARY, PERMISSION, CONFIGURATION = 64, 65, 69, 70, 75, 77, 78
WITHOUT_CODE, TIMED_OUT, NOT_RUN, NOT_FOUND, SIGNALLED = 1, 124, 126, 127, 128
INTERRUPTED = 130
BROKEN_PIPE = 141
