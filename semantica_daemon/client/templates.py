"""`semantica template`: jobs kept under a name, for schedules and for `--template`."""

from semantica_daemon import environment
from semantica_daemon.client import draw, running, spec, waiting, words
from semantica_daemon.client.codes import USAGE
from semantica_daemon.client.parser import Command, Namespace, Parser, Verbs
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.showing import brief, command
from semantica_daemon.client.terminal import Failed, Terminal

COLUMNS = ("name", "type", "queue", "schedules", "changed", "what")
# What belongs to one job and no other.
OF_ONE_JOB = {
    "at": "give --every, or --after: from each of its instants on",
    "key": "a key would make all of them the same job",
    "generation": "the daemon counts: give --subject alone",
    "newest_wins": "the file's time of change is that of now: give --subject",
    "deadline": "it would pass once for all of them: give --ttl",
}


def spec_of(arguments: Namespace, terminal: Terminal, what: str) -> Json:
    """The JobSpec of a template: nothing of one job alone, and no secrets."""
    for name, hint in OF_ONE_JOB.items():
        if getattr(arguments, name) is not None:
            raise Failed(f"{what}: --{name.replace('_', '-')} is for one job", USAGE, hint)
    named = [one.partition("=")[0] for one in arguments.env]
    for name in filter(environment.is_secret, named):
        hint = "let the command read it from a file or a keyring, where it runs"
        raise Failed(f"--env {name}: a secret is never stored, so {what} cannot keep it", USAGE, hint)
    found = spec.job_spec(arguments)
    secret = [name for name in found.get("env_vars", {}) if environment.is_secret(name)]
    for name in secret:
        del found["env_vars"][name]
    if secret:
        terminal.chat(f"not kept, as secrets never are: {', '.join(secret)}")
    return found


def list_all(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("template.list")
    if terminal.as_json:
        terminal.document(found)
    elif terminal.quiet:
        for one in found["templates"]:
            terminal.data(one["template_id"])
    elif found["templates"]:
        draw.table(COLUMNS, [_row(one) for one in found["templates"]], "what")
    else:
        terminal.chat("no template yet; `semantica template put NAME -- COMMAND` makes one")
    return 0


def _row(template: Json) -> list[object]:
    job = template["spec"]
    used = ", ".join(template["schedules"]) or "-"
    kept = (job["job_type"], job.get("queue") or "default", used, words.moment(template["updated_at"]))
    return [template["name"], *kept, _what(job)]


def _what(job: Json) -> str:
    return command({"execution_mode": "SUBPROCESS", **job}) or brief(job.get("payload") or {})


def show(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("template.get", template_id=arguments.name)
    if terminal.as_json:
        terminal.document(found)
    elif terminal.quiet:
        terminal.data(found["template_id"])
    else:
        draw.pairs(_rows(found))
    return 0


def _rows(found: Json) -> list[tuple[str, object]]:
    job: Json = found["spec"]
    rows: list[tuple[str, object]] = [("name", found["name"]), ("id", found["template_id"]), ("type", job["job_type"])]
    rows.append(("what", _what(job)))
    if waits := waiting.conditions(job.get("schedule") or {}):
        rows.append(("starts when", " and ".join(waits)))
    shown = ("job_type", "payload", "env_vars", "schedule")
    rows += [(name, value) for name, value in job.items() if name not in shown and value is not None]
    rows.append(("schedules", ", ".join(found["schedules"]) or "-"))
    return [*rows, ("made", words.moment(found["created_at"])), ("changed", words.moment(found["updated_at"]))]


def put(arguments: Namespace, terminal: Terminal) -> int:
    asked = spec_of(arguments, terminal, "a template")
    with terminal.client() as client:
        done = client.call("template.put", name=arguments.name, spec=asked)
    if terminal.as_json:
        terminal.document(done)
        return 0
    terminal.data(done["template_id"])
    terminal.chat(f"template {done['name']} is {'new' if done['created'] else 'changed'}")
    return 0


def delete(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        for name in arguments.name:
            done = client.call("template.delete", template_id=name)
            if terminal.as_json:
                terminal.document(done, lines=len(arguments.name) > 1)
            terminal.chat(f"template {name} is deleted; jobs that it has made stay")
    return 0


def run(arguments: Namespace, terminal: Terminal) -> int:
    arguments.template = arguments.name
    return running.run(arguments, terminal)


def _name(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name or its id")


def _names(parser: Parser) -> None:
    parser.add_argument("name", nargs="+", metavar="NAME", help="names or ids")


def _job(parser: Parser) -> None:
    parser.takes_command_behind_dashes = True
    _name(parser)
    spec.rules(parser)


TEMPLATE = Verbs(
    "Jobs kept under a name: for schedules, and to be run again.",
    {
        "list": Command("All of them.", list_all, examples="\n  semantica template list --json"),
        "show": Command("Everything about one.", show, _name, "\n  semantica template show backup"),
        "put": Command(
            "Make one, or change the one of that name. Prints its id.",
            put,
            _job,
            """
  semantica template put backup --timeout 1h --attempts 3 -- ./backup.sh
  semantica template put index --type INDEX_FILE --payload '{"path": "."}'""",
            "NAME [options] -- COMMAND [ARGUMENT …]",
        ),
        "delete": Command(
            "Forget some; refused while a schedule uses one.", delete, _names, "\n  semantica template delete backup"
        ),
        "run": Command(
            "Make a job of it and follow it, as `semantica run` does; `semantica add --template NAME` goes on.",
            run,
            _job,
            """
  semantica template run backup
  semantica template run index --payload '{"path": "src"}'""",
            "NAME [options] [-- COMMAND [ARGUMENT …]]",
        ),
    },
    """
  semantica template put backup --timeout 1h -- ./backup.sh
  semantica template run backup
  semantica add --template backup --at 02:00
  semantica schedule put nightly --template backup --cron '0 3 * * *'""",
)
