"""Exit codes: sysexits for what goes wrong with the command itself, a shell's own for how a job ended."""

USAGE, DATA, NO_DAEMON, INTERNAL, TEMPORARY, PERMISSION, CONFIGURATION = 64, 65, 69, 70, 75, 77, 78
WITHOUT_CODE, TIMED_OUT, NOT_RUN, NOT_FOUND, SIGNALLED = 1, 124, 126, 127, 128
INTERRUPTED = 130
NOBODY_READS = 141  # as if SIGPIPE had ended it: without a word
