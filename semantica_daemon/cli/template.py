"""`semantica template`: jobs stored under a name, for schedules and for `--template`."""

from semantica_daemon import environment, prose
from semantica_daemon.cli import format, job_options, run, start_options, tables
from semantica_daemon.cli.command import Command, Subcommands
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.job_text import command, short_json
from semantica_daemon.cli.parser import Namespace, Parser
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.exit_codes import USAGE
from semantica_daemon.client.json_types import Json

COLUMNS = ("name", "type", "queue", "schedules", "changed", "what")
# Options that make sense for one job only, and what to use instead.
OF_ONE_JOB = {
    "at": "use --every, or --after, which counts from each instant",
    "key": "with a key all of them would be the same job",
    "generation": "the daemon counts: give only --subject",
    "newest_wins": "the time of change is fixed now: use --subject",
    "deadline": "it would pass once for all of them: use --ttl",
}


def spec_of(arguments: Namespace, terminal: Terminal, what: str) -> Json:
    """The JobSpec of a template, without secrets; refuses the options of one job. `what` names it in errors."""
    for name, hint in OF_ONE_JOB.items():
        if getattr(arguments, name) is not None:
            raise CommandFailed(f"{what}: --{name.replace('_', '-')} is for one job", USAGE, hint)
    named = [one.partition("=")[0] for one in arguments.env]
    for name in filter(environment.is_secret, named):
        hint = "let the command read it from a file or a keyring, where it runs"
        raise CommandFailed(f"--env {name}: secrets are never stored, so {what} cannot have it", USAGE, hint)
    found = job_options.job_spec(arguments)
    secret = [name for name in found.get("env_vars", {}) if environment.is_secret(name)]
    for name in secret:
        del found["env_vars"][name]
    if secret:
        terminal.note(f"not stored, because secrets never are: {', '.join(secret)}")
    return found


def list_templates(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("template.list")
    if terminal.as_json:
        terminal.print_json(found)
    elif terminal.quiet:
        for one in found["templates"]:
            terminal.print(one["template_id"])
    elif found["templates"]:
        tables.table(COLUMNS, [_row(one) for one in found["templates"]], "what")
    else:
        terminal.note("no template yet; `semantica template put NAME -- COMMAND` makes one")
    return 0


def _row(template: Json) -> list[object]:
    job = template["spec"]
    used = ", ".join(template["schedules"]) or "-"
    kept = (job["job_type"], job.get("queue") or "default", used, format.instant(template["updated_at"]))
    return [template["name"], *kept, _what(job)]


def _what(job: Json) -> str:
    return command({"execution_mode": "SUBPROCESS", **job}) or short_json(job.get("payload") or {})


def show(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("template.get", template_id=arguments.name)
    if terminal.as_json:
        terminal.print_json(found)
    elif terminal.quiet:
        terminal.print(found["template_id"])
    else:
        tables.pairs(_rows(found))
    return 0


def _rows(found: Json) -> list[tuple[str, object]]:
    job: Json = found["spec"]
    rows: list[tuple[str, object]] = [("name", found["name"]), ("id", found["template_id"]), ("type", job["job_type"])]
    rows.append(("what", _what(job)))
    if starts := prose.start(start_options.start_reasons(job, 0), 0, lambda at: "later"):
        rows.append(("starts", starts))
    shown = ("job_type", "payload", "env_vars", "schedule")
    rows += [(name, value) for name, value in job.items() if name not in shown and value is not None]
    rows.append(("schedules", ", ".join(found["schedules"]) or "-"))
    return [*rows, ("created", format.instant(found["created_at"])), ("changed", format.instant(found["updated_at"]))]


def put(arguments: Namespace, terminal: Terminal) -> int:
    spec = spec_of(arguments, terminal, "a template")
    with terminal.client() as client:
        done = client.call("template.put", name=arguments.name, spec=spec)
    if terminal.as_json:
        terminal.print_json(done)
        return 0
    terminal.print(done["template_id"])
    terminal.note(f"template {done['name']} is {'new' if done['created'] else 'changed'}")
    return 0


def delete(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        for name in arguments.name:
            done = client.call("template.delete", template_id=name)
            if terminal.as_json:
                terminal.print_json(done, lines=len(arguments.name) > 1)
            terminal.note(f"template {name} is deleted; the jobs made from it stay")
    return 0


def run_template(arguments: Namespace, terminal: Terminal) -> int:
    arguments.template = arguments.name
    return run.run(arguments, terminal)


def _name_option(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name or its id")


def _names_option(parser: Parser) -> None:
    parser.add_argument("name", nargs="+", metavar="NAME", help="names or ids")


def _job_options(parser: Parser) -> None:
    parser.takes_command_after_dashes = True
    _name_option(parser)
    job_options.add_options_without_command(parser)


COMMAND = Subcommands(
    "Jobs stored under a name, for schedules and to run again.",
    {
        "list": Command("List all templates.", list_templates, examples="\n  semantica template list --json"),
        "show": Command(
            "Show everything about one template.", show, _name_option, "\n  semantica template show backup"
        ),
        "put": Command(
            "Make a template, or change the one of that name. Prints its id.",
            put,
            _job_options,
            """
  semantica template put backup --timeout 1h --attempts 3 -- ./backup.sh
  semantica template put index --type INDEX_FILE --payload '{"path": "."}'""",
            "NAME [options] -- COMMAND [ARGUMENT …]",
        ),
        "delete": Command(
            "Delete templates; refused while a schedule uses one.",
            delete,
            _names_option,
            "\n  semantica template delete backup",
        ),
        "run": Command(
            "Add a job from it and follow it, as `semantica run` does; `semantica add --template NAME` only adds it.",
            run_template,
            _job_options,
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
