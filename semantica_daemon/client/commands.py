"""Every command: where it is, and what the overview says of it. Imports nothing, so that help costs nothing."""

# What every command takes, and may stand before it.
EVERYWHERE = frozenset({"--json", "-q", "--quiet", "--no-autostart"})

# name: (module of this package, name in it)
COMMANDS = {
    "run": ("running", "RUN"),
    "add": ("adding", "ADD"),
    "plan": ("adding", "PLAN"),
    "list": ("listing", "LIST"),
    "ls": ("listing", "LIST"),
    "status": ("listing", "STATUS"),
    "show": ("showing", "SHOW"),
    "logs": ("reading", "LOGS"),
    "wait": ("ending", "WAIT"),
    "cancel": ("ending", "CANCEL"),
    "why": ("why", "WHY"),
    "schedule": ("schedules", "SCHEDULE"),
    "template": ("templates", "TEMPLATE"),
    "emit": ("emitting", "EMIT"),
    "machine": ("machine", "MACHINE"),
    "events": ("events", "EVENTS"),
    "queue": ("queues", "QUEUE"),
    "rpc": ("admin", "RPC"),
    "paths": ("admin", "PATHS"),
    "config": ("admin", "CONFIG"),
    "stop": ("admin", "STOP"),
    "version": ("admin", "VERSION_OF_IT"),
    "doctor": ("doctor", "DOCTOR"),
}

OVERVIEW = """\
semantica: background work on this machine that is neither lost nor repeated

  semantica run -- make test          run it as a job: live output, its exit code; Ctrl-C leaves it running
  semantica add -- make test          hand it in and go on; prints the job's id
  semantica add --newest-wins a.py -- lint a.py
                                      only the newest save of a.py is worth a run
  semantica add --when-idle --on-event git:commit -- make docs
                                      it waits for the right moment
  semantica status                    what runs, what waits, how the last ones ended

jobs
  run      run a command as a job and follow it      show     everything about one job
  add      hand in a job, print its id               logs     what a job has written; -f follows it
  plan     what `add` would do                       wait     wait for jobs; their exit code
  list     jobs by state, queue, tag … (also: ls)    cancel   end jobs, by id, tag, group, subject or queue

the right moment
  why      why a job does not start yet              emit     tell an event that jobs may wait for
  schedule jobs made by cron: list, put, next …      machine  is it idle, is it on power, and who says so
  template jobs kept under a name: put, run …

the daemon
  status   one screen of everything                  stop     stop it, after the jobs had their grace period
  events   what has happened; -f as it happens       doctor   look what is wrong and what to do
  queue    list, pause, resume, set slots            config   the configuration in force
  rpc      call any method                           paths    where everything lies
  version  of this command and its protocol          help     help for a command: semantica help run

A job is named by its id, by the first 4 or more characters of it, or by @last: the one you handed in last.
`semantica COMMAND --help` shows the options, with examples.
"""

EXIT_CODES = """\
exit codes
  run and wait return the job's own code: the command's exit code; 128 + n when signal n ended it; 127 not found;
  126 found, but it cannot be run; 124 it took longer than its --timeout, or the wait did; 1 it ended without a code
  (cancelled, superseded, skipped); 128 + n when signal n made you leave and the job goes on: 130 for Ctrl-C.
  64 wrong words on the line, or a method or value the daemon does not know     69 no daemon
  65 wrong data: no such job, an id that fits several, a key or a lane in conflict, a payload that does not fit
  70 an error inside Semantica   75 try again later   77 not permitted   78 configuration
"""
