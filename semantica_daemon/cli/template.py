"""`semantica template`: jobs stored under a name, for schedules and for `--template`."""

from semantica_daemon import environment, prose
from semantica_daemon.cli import format, job_options, run, run_now, show, tables
from semantica_daemon.cli.command import NAME, Any, Command, Json, Subcommands, Terminal, each_name
from semantica_daemon.cli.errors import CommandFailed

COLUMNS: tables.Columns = {
    "name": "name",
    "type": lambda one: one["spec"]["job_type"],
    "queue": lambda one: one["spec"].get("queue") or "default",
    "schedules": lambda one: ", ".join(one["schedules"]) or None,
    "changed": lambda one: format.instant(one["updated_at"]),
    "what": lambda one: _what(one["spec"]),
}
# Options that make sense for one job only, and what to use instead.
OF_ONE_JOB = {
    "at": "leave out --at; `--after 5m` delays each job of the schedule",
    "key": "with a key all of them would be the same job",
    "generation": "the daemon counts: give only --subject",
    "newest_wins": "the time of change is fixed now: use --subject",
    "deadline": "it would pass once for all of them: use --ttl",
    "needs": "the jobs that it needs end once for all of them",
}
SHOWN_APART = ("job_type", "payload", "env_vars", "schedule", "execution_mode")
# By the field of a spec, where the words of `show` are others.
LABELS = {
    "user_tag": "tag", "chain_group_id": "group", "subject_key": "subject", "max_attempts": "attempts",
    "concurrency_key": "concurrency key", "backoff_base_ms": "backoff",
    "backoff": "backoff grows", "backoff_max_ms": "longest backoff",
}  # fmt: skip


def spec_of(arguments: Any, terminal: Terminal, what: str) -> Json:
    """The JobSpec of a template, without secrets; refuses the options of one job. `what` names it in errors."""
    for name, hint in OF_ONE_JOB.items():
        if getattr(arguments, name, None) is not None:
            raise CommandFailed(f"{what}: --{name.replace('_', '-')} is for one job", hint)
    for name in filter(environment.is_secret, [one.partition("=")[0] for one in arguments.env]):
        hint = "let the command read it from a file or a keyring, where it runs"
        raise CommandFailed(f"--env {name}: secrets are never stored, so {what} cannot have it", hint)
    found = job_options.job_spec(arguments, in_template=True)
    secret = [name for name in found.get("env_vars", {}) if environment.is_secret(name)]
    for name in secret:
        del found["env_vars"][name]
    if secret:
        terminal.note(f"not stored, because secrets never are: {', '.join(secret)}")
    return found


def list_templates(arguments: Any, terminal: Terminal) -> None:
    found = terminal.call("template.list")
    items, nothing = found["templates"], "no template yet; `semantica template put NAME -- COMMAND` makes one"
    ids = [one["template_id"] for one in items]
    terminal.show(found, ids, lambda: tables.table(COLUMNS, items, "what", nothing))


def _what(job: Json) -> str:
    return format.command({"execution_mode": "SUBPROCESS", **job}) or format.short_json(job.get("payload") or {})


def show_template(arguments: Any, terminal: Terminal) -> None:
    found = terminal.call("template.get", template_id=arguments.name)
    terminal.show(found, [found["template_id"]], lambda: tables.pairs(_rows(found)))


def _rows(found: Json) -> list[tuple[str, object]]:
    job = found["spec"]
    return [
        ("name", found["name"]),
        ("id", found["template_id"]),
        ("type", job["job_type"]),
        *show.what_is_run({"execution_mode": "SUBPROCESS", "env_vars": None, **job}),
        ("starts", prose.start(job_options.start_reasons(job, 0), 0, lambda at: "later") or None),
        *(_setting(name, value) for name, value in job.items() if name not in SHOWN_APART),
        ("schedules", ", ".join(found["schedules"]) or "-"),
        ("created", format.instant(found["created_at"])),
        ("changed", format.instant(found["updated_at"])),
    ]


def _setting(name: str, value: Any) -> tuple[str, object]:
    label = LABELS.get(name, name.removesuffix("_ms").replace("_", " "))
    if name == "retry_on":
        return "retried after", show.exit_codes(value)
    if name.endswith("_ms"):
        return label, prose.duration(value)
    return label, format.short_json(value) if isinstance(value, dict) else value


def put(arguments: Any, terminal: Terminal) -> None:
    spec = spec_of(arguments, terminal, "a template")
    done = terminal.call("template.put", name=arguments.name, spec=spec)
    terminal.show(done, [done["template_id"]])
    if not terminal.as_json:
        terminal.note(f"template {done['name']} is {'new' if done['created'] else 'changed'}")


def run_template(arguments: Any, terminal: Terminal) -> int:
    arguments.template = arguments.name
    return run.run(arguments, terminal)


JOB = [NAME, *job_options.OF_TEMPLATE]
COMMAND = Subcommands(
    "Jobs stored under a name, for schedules and to run again.",
    {
        "list": Command("List all templates.", list_templates, examples="semantica template list --json"),
        "show": Command("Show everything about one template.", show_template, [NAME], "semantica template show backup"),
        "put": Command(
            "Make a template, or change the one of that name. Prints its id.",
            put,
            JOB,
            """
  semantica template put backup --timeout 1h --attempts 3 -- ./backup.sh
  semantica template put index --type INDEX_FILE --payload '{"path": "."}'""",
            "NAME [options] -- COMMAND [ARGUMENT …]",
            after_dashes=True,
        ),
        "delete": each_name("template.delete", "Delete templates; refused while a schedule uses one.", "backup",
                            lambda *_: "is deleted; the jobs made from it stay"),
        "run": Command(
            "Add a job from it and follow it, as `semantica run` does; `semantica add --template NAME` only adds it.",
            run_template,
            [NAME, *job_options.OF_TEMPLATE_RUN, run_now.OPTIONS],
            """
  semantica template run backup
  semantica template run index --payload '{"path": "src"}'""",
            "NAME [options] [-- COMMAND [ARGUMENT …]]",
            after_dashes=True,
        ),
    },
    """
  semantica template put backup --timeout 1h -- ./backup.sh
  semantica template run backup
  semantica add --template backup --at 02:00
  semantica schedule put nightly --template backup --cron '0 3 * * *'""",
)  # fmt: skip
