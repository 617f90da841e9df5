"""`semantica schedule`: schedules, which add jobs by cron, each from a template."""

from semantica_daemon import prose
from semantica_daemon.cli import format, last_job, payload, tables, times
from semantica_daemon.cli.command import NAME, Any, Command, Json, Option, Subcommands, Terminal, each_name
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import positive
from semantica_daemon.client.client import Client

COLUMNS: tables.Columns = {
    "name": "name",
    "state": lambda one: "on" if one["enabled"] else "off",
    "cron": "cron_expression",
    "zone": "timezone",
    "template": "template_name",
    "next": lambda one: format.instant(one["next_trigger_at"]),
    "last": lambda one: format.instant(one["last_triggered_at"]),
    "ended": lambda one: _last_end(one),
}
NEXT_SHOWN = 3
MOST_UPCOMING = 100
NUMBERS_OF_FIELDS = (5, 6)


def list_schedules(arguments: Any, terminal: Terminal) -> None:
    found = terminal.call("schedule.list")
    items, nothing = found["schedules"], "no schedule yet; `semantica add --every '0 3 * * *' -- COMMAND` makes one"
    ids = [one["schedule_id"] for one in items]
    terminal.show(found, ids, lambda: tables.table(COLUMNS, items, "template", nothing))


def show(arguments: Any, terminal: Terminal) -> None:
    found = terminal.call("schedule.get", schedule_id=arguments.name)
    terminal.show(found, [found["schedule_id"]], lambda: tables.pairs(_rows(found)))


def _rows(one: Json) -> list[tuple[str, object]]:
    now = format.now()
    return [
        ("name", one["name"]),
        ("id", one["schedule_id"]),
        ("state", "on" if one["enabled"] else "off"),
        ("cron", f"{one['cron_expression']} ({one['timezone']})"),
        ("template", one["template_name"]),
        ("misfire", one["misfire"]),
        ("overlap", one["overlap"]),
        ("parameters", format.short_json(one["param_overrides"]) if one["param_overrides"] else None),
        *(
            ("then" if number else "next", format.instant_and_delay(at, now))
            for number, at in enumerate(one["upcoming"])
        ),
        ("last", format.instant(one["last_triggered_at"])),
        ("last job", one["last_job_id"] and f"{one['last_job_id']}, {_last_end(one) or 'which was removed'}"),
        ("created", format.instant(one["created_at"])),
        ("changed", format.instant(one["updated_at"])),
    ]


def _last_end(one: Json) -> str | None:
    """The state of its last job; of a command that failed also the exit code."""
    state, code = one["last_job_state"], one["last_exit_code"]
    return f"{state} ({code})" if state == "FAILED" and code is not None else state


def put(arguments: Any, terminal: Terminal) -> None:
    params: Json = {"name": arguments.name, "template_id": arguments.template, **settings(arguments, arguments.cron)}
    if arguments.disabled:
        params["enabled"] = False
    if overrides := _overrides(arguments):
        params["param_overrides"] = overrides
    with terminal.client() as client:
        done = client.call("schedule.put", **params)
        print_put(terminal, client, done, done)


def settings(arguments: Any, cron: str) -> Json:
    """The parameters of schedule.put that `add --every` sets too."""
    given = {one.dest: value for one in POLICIES if (value := getattr(arguments, one.dest)) is not None}
    return {"cron_expression": cron, "timezone": arguments.zone or times.zone(), **given}


def _overrides(arguments: Any) -> Json:
    if arguments.params is not None and arguments.param:
        raise CommandFailed("--param and --params are both given", "give only one of them")
    return (
        dict(arguments.param) if arguments.params is None else payload.parse_object(arguments.params, "the parameters")
    )


def parameter(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not (name and given):
        raise ValueError(f"{text!r} is not a parameter: write KEY=VALUE, or --params JSON for values that are not text")
    return name, value


def print_put(terminal: Terminal, client: Client, done: Json, answer: Json) -> None:
    """Prints the id of a schedule that was put, and notes its next instants."""
    terminal.show(answer, [done["schedule_id"]])
    if terminal.quiet:
        return
    found = client.call("schedule.get", schedule_id=done["schedule_id"])
    verb = "new" if done["created"] else "changed"
    terminal.note(f"schedule {found['name']} is {verb}; {_next_instants(found)}")


def _next_instants(one: Json) -> str:
    """In the user's zone."""
    if not one["enabled"] or not one["upcoming"]:
        return "it is off" if not one["enabled"] else "it never fires again"
    now = format.now()
    first, *others = one["upcoming"][:NEXT_SHOWN]
    instants = [format.instant_and_delay(first, now), *(prose.instant(at, now) for at in others)]
    where = one["timezone"] if one["timezone"] == times.zone() else f"your time; cron by {one['timezone']}"
    return f"next: {'; then '.join(instants)} ({where})"


def print_next(arguments: Any, terminal: Terminal) -> None:
    limit = min(arguments.limit, MOST_UPCOMING)
    found, now = terminal.call("schedule.get", schedule_id=arguments.name, upcoming=limit), format.now()
    instants = found["upcoming"]
    if terminal.as_json:
        return terminal.print_json({"schedule_id": found["schedule_id"], "name": found["name"], "upcoming": instants})
    for at in instants:
        terminal.print(prose.instant(at, now) if terminal.quiet else format.instant_and_delay(at, now))
    if not instants:
        terminal.note(f"schedule {found['name']}: {_next_instants(found)}")
    elif len(instants) < arguments.limit:
        terminal.note(f"no more than {len(instants)} are computed")


def _report_trigger(done: Json, terminal: Terminal) -> str:
    if done["job"] is None:
        return "added no job: its previous one is not over, and overlap is skip"
    job_id = done["job"]["job_id"]
    last_job.remember(terminal.paths, job_id)
    if not terminal.as_json:
        terminal.print(job_id)
    return f"added job {prose.short_id(job_id)}; next: {_next(done)}"


def _next(done: Json) -> str:
    return "-" if done["next_trigger_at"] is None else format.instant_and_delay(done["next_trigger_at"], format.now())


def cron(text: str) -> str:
    """Refuses text that has not the shape of a cron expression; the daemon checks the fields."""
    if text.startswith("@") or len(text.split()) in NUMBERS_OF_FIELDS:
        return text
    raise ValueError(f"{text!r} is not a cron expression: write '*/5 * * * *' or @daily")


CRON_HELP = "'0 3 * * *', with seconds '30 0 3 * * *', @daily, @hourly …"
ZONE = Option("--zone ZONE", "the time zone of CRON (default: yours)")
POLICIES = [
    Option("--misfire {run_once,skip,run_all}",
           "times missed while no daemon ran: add one job (run_once), none, or all"),
    Option("--overlap {queue,skip,supersede}",
           "its previous job is not over: wait for it (queue), add none, or replace it"),
]  # fmt: skip
PUT = [
    Option("name NAME", "an existing schedule of this name is replaced"),
    Option("--template T", "the template of its jobs, by name or id", required=True),
    Option("--cron CRON", CRON_HELP, cron, required=True),
    ZONE,
    *POLICIES,
    Option("--param KEY=VALUE",
           "overrides a field of the template's payload (repeat for more)", parameter, action="append", default=[]),
    Option("--params JSON", "the same, as an object"),
    Option("--disabled", "off at first; `semantica schedule enable` turns it on"),
]  # fmt: skip
LIMIT = Option("-n, --limit N", "at most this many (5)", positive, default=5)
COMMAND = Subcommands(
    "Schedules, which add jobs by cron, each from a template.",
    {
        "list": Command("List all schedules.", list_schedules, examples="semantica schedule list --json"),
        "show": Command("Show everything about one schedule.", show, [NAME], "semantica schedule show nightly"),
        "put": Command(
            "Make a schedule, or change the one of that name. Prints its id.",
            put,
            PUT,
            """
  semantica schedule put nightly --template backup --cron '0 3 * * *' --zone Europe/Berlin
  semantica schedule put poll --template fetch --cron '*/5 * * * *' --overlap skip --param url=https://example.org""",
        ),
        "enable": each_name("schedule.enable", "Turn schedules on, from now on.", "nightly",
                            lambda done, _: f"is on; next: {_next(done)}"),
        "disable": each_name("schedule.disable", "Turn schedules off.", "nightly",
                             lambda *_: "is off; the jobs it added stay"),
        "trigger": each_name("schedule.trigger", "Add a job now, whatever its cron says. Prints the job's id.",
                             "nightly", _report_trigger),
        "delete": each_name("schedule.delete", "Delete schedules; the jobs they added stay.", "nightly",
                            lambda *_: "is deleted; its template and the jobs it added stay"),
        "next": Command("Show its next times.", print_next, [NAME, LIMIT], "semantica schedule next nightly -n 3"),
    },
    """
  semantica schedule
  semantica add --every '0 3 * * *' --name backup -- ./backup.sh     the short way to make one
  semantica schedule put nightly --template backup --cron '@daily' --misfire skip
  semantica schedule next nightly
  semantica schedule trigger nightly                                  a job now; its times do not change""",
)  # fmt: skip
