"""Words of other tools (tsp, pueue, systemctl, docker, git) and the command that does the same here. Imported when a
command is not known; `parser.py` has the words for subcommands."""

SAME_HERE = {
    "status": "top htop stats info monitor is-active start up format-status",
    "list": "ps jobs tasks history list-units list-jobs",
    "show": "inspect describe get",
    "logs": "cat output stdout stderr",
    "logs -f": "tail follow attach",
    "cancel": "kill rm remove delete abort terminate",
    "retry": "rerun again redo requeue",
    "add": "enqueue submit create new batch",
    "run": "exec fg execute",
    "add --at TIME": "at",
    "schedule": "cron crontab timer timers list-timers",
    "list --watch": "watch",
    "events -f": "journal",
    "wait": "join sync",
    "queue": "queues",
    "group": "groups",
    "queue pause": "pause suspend freeze",
    "hold": "stash park",
    "queue resume": "resume unpause continue thaw",
    "move --front": "urgent bump",
    "move": "mv switch swap reorder",
    "edit": "change modify",
    "archive": "clean cleanup prune purge",
    "queue set": "parallel slots limit rate",
    "emit": "trigger notify signal send",
    "stop": "shutdown quit exit down halt",
    "config reload": "reload daemon-reload",
    "service install": "install enable autostart",
    "service uninstall": "uninstall disable",
    "service logs": "journalctl",
    "doctor": "check diagnose health ping",
    "config": "settings conf configuration",
    "paths": "where",
    "rpc": "call api request",
}


def same_here(word: str) -> str:
    """The command for a word of another tool; empty when the word is not known."""
    return next((command for command, words in SAME_HERE.items() if word in words.split()), "")
