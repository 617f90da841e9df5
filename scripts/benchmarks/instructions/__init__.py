"""User instructions a job, counted by valgrind; and the pages and statements of a commit."""
