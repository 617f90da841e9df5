"""The names of the commands, and the text of `semantica --help`. Imports no command, so that help is fast."""

from semantica_daemon.client.json_types import Any

# Options of every command; they may also precede the command.
GLOBAL_OPTIONS = frozenset({"--json", "-q", "--quiet", "--no-autostart"})

# Each is the name of a module of this package whose COMMAND it is; `ls` is `list`.
COMMANDS = (
    "run", "add", "map", "plan", "list", "ls", "show", "graph", "logs", "wait", "cancel", "retry",
    "move", "edit", "hold", "release", "archive",
    "progress", "log", "result",
    "why", "emit", "on", "schedule", "template", "machine",
    "status", "events", "queue", "group", "workers", "reserve", "unreserve", "rpc", "config", "paths", "version",
    "completions",
    "stop", "restart", "service", "doctor",
)  # fmt: skip

OVERVIEW = """\
semantica: background jobs on this machine that are neither lost nor repeated

  semantica run -- make test                       run it as a job: live output, its exit code; Ctrl-C leaves it running
  semantica add -- make test                       add it to the queue and return; prints the job's id
  semantica map -j 4 -- gzip {} ::: *.log          run it once for each item, 4 at a time; goes on after a crash
  semantica add --newest-wins a.py -- lint a.py    of several saves of a.py only the newest is run
  semantica status                                 what is running, what is waiting, how the last jobs ended

jobs
  run      run a command as a job and follow it      show     everything about one job; graph: what needs what
  add      add a job, print its id                   logs     the output of a job; -f follows it
  map      run a command for each of many items      wait     wait for jobs; returns their exit code
  list     jobs by state, queue, tag … (also: ls)    cancel   end jobs, by id, tag, group, subject or queue
  move     change the order; edit: change a job      hold     keep jobs from starting until `release`
  archive  delete the files of ended jobs            called by a job: progress PERCENT MESSAGE, log MESSAGE, result JSON

when jobs start
  why      why a job waits; plan: what `add` does    emit     emit an event; `on KEY` runs a command at each one
  schedule jobs added again and again: list, put …   machine  is it idle, is it on mains power, by which source
  template jobs stored under a name: put, run …      retry    run a job that has ended once more

the daemon
  status   one screen of everything                  stop     stop it, after the grace period of its jobs; also restart
  events   what has happened; -f as it happens       doctor   find out what is wrong and what to do
  queue    list, pause, resume, set limits, delete   config   the configuration in use; paths: where the files are
  group    list, show, create, cancel, wait          reserve  let no other job start until `unreserve`
  workers  external workers; rpc: call any method    service  start it at login, by systemd or launchd; also version

A job is named by its id, by the first 4 or more characters of it, or by @last: the job you added last.
`semantica help COMMAND` shows the options, with examples; `semantica completions SHELL` is for the TAB key.
"""

EXIT_CODES = """\
exit codes
  run and wait return the job's own code: the command's exit code; 128 + n when signal n ended it, or ended `run` while
  the job goes on: 130 for Ctrl-C; 127 not found; 126 found, but it cannot be run; 124 it took longer than its
  --timeout, or the wait did; 1 it ended without a code (cancelled, superseded, skipped) or failed without one
  (deadline, daemon stopped, a handler).
  64 wrong arguments, or a method or value the daemon does not know     69 no daemon
  65 wrong data: no such job, an ambiguous id, a conflicting key or generation, a payload that does not fit
  70 an error inside Semantica   75 try again later   77 not permitted   78 configuration
"""


def first_word(arguments: list[str]) -> int:
    """Where the name of a command or subcommand is: the options of every command may precede it."""
    return next((index for index, word in enumerate(arguments) if word not in GLOBAL_OPTIONS), len(arguments))


def load(name: str) -> Any:
    """The Command or the Subcommands of this name."""
    from importlib import import_module  # noqa: PLC0415

    return import_module(f"semantica_daemon.cli.{'list' if name == 'ls' else name}").COMMAND
