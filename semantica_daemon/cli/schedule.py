"""`semantica schedule`: schedules, which add jobs again and again, each from a template."""

from semantica_daemon import prose
from semantica_daemon.cli import format, job_options, last_job, payload, repeat, tables, times
from semantica_daemon.cli.command import NAME, Any, Command, Json, Option, Subcommands, Terminal, each_name
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import positive
from semantica_daemon.client.client import Client

COLUMNS: tables.Columns = {
    "name": "name",
    "state": lambda one: "on" if one["enabled"] else "off",
    "when": repeat.when_with_jitter,
    "zone": lambda one: one["timezone"] if _is_cron(one) else None,
    "template": "template_name",
    "next": lambda one: format.instant(one["next_trigger_at"]),
    "last": lambda one: format.instant(one["last_triggered_at"]),
    "ended": lambda one: _last_end(one),
}
SHORT = ("name", "next", "last", "ended")
NEXT_SHOWN = 3
MOST_UPCOMING = 100
REBOOT = "@reboot"


def list_schedules(arguments: Any, terminal: Terminal) -> None:
    found = terminal.call("schedule.list")
    items, nothing = found["schedules"], "no schedule yet; `semantica add --every 'daily 03:00' -- COMMAND` makes one"
    ids = [one["schedule_id"] for one in items]
    terminal.show(found, ids, lambda: tables.table(columns(items), items, "template", nothing))


def columns(schedules: list[Json]) -> tables.Columns:
    """Says whose time it is when a schedule is in another zone."""
    is_elsewhere = any(_is_cron(one) and one["timezone"] != times.zone() for one in schedules)
    return {"next (your time)" if name == "next" and is_elsewhere else name: COLUMNS[name] for name in COLUMNS}


def short_columns(schedules: list[Json]) -> tables.Columns:
    """Without `when`, which stands in the column `next` of a schedule that fires at an event."""
    shown = {name: cell for name, cell in columns(schedules).items() if name.startswith(SHORT)}
    return {name: _next_or_event if name.startswith("next") else cell for name, cell in shown.items()}


def _next_or_event(one: Json) -> str | None:
    fires_at_event = one["enabled"] and (one["on_event"] is not None or one["cron_expression"] == REBOOT)
    return repeat.when(one) if fires_at_event else format.instant(one["next_trigger_at"])


def show(arguments: Any, terminal: Terminal) -> None:
    found = terminal.call("schedule.get", schedule_id=arguments.name)
    terminal.show(found, [found["schedule_id"]], lambda: tables.pairs(_rows(found)))


def _rows(one: Json) -> list[tuple[str, object]]:
    now = format.now()
    return [
        ("name", one["name"]),
        ("id", one["schedule_id"]),
        ("state", "on" if one["enabled"] else "off"),
        ("when", f"{repeat.when(one)} ({one['timezone']})" if _is_cron(one) else repeat.when(one)),
        ("jitter", repeat.jitter(one)),
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
    given = [
        *([{"cron_expression": arguments.cron}] if arguments.cron is not None else []),
        *([repeat.fields(arguments.every)] if arguments.every is not None else []),
        *([at_event(arguments.on_event)] if arguments.on_event is not None else []),
    ]
    if len(given) != 1:
        problem = "nothing makes it fire" if not given else "it can fire in one way only"
        raise CommandFailed(f"schedule put: {problem}", "give one of --cron, --every and --on-event")
    params: Json = {"name": arguments.name, "template_id": arguments.template, **settings(arguments, given[0])}
    if arguments.disabled:
        params["enabled"] = False
    if overrides := _overrides(arguments):
        params["param_overrides"] = overrides
    with terminal.client() as client:
        done = client.call("schedule.put", **params)
        print_put(terminal, client, done, done)


def settings(arguments: Any, when: Json) -> Json:
    """The parameters of schedule.put that `add --every` and `on` set too. `when`: those that say when it fires."""
    values = ((one.field, getattr(arguments, one.dest, None)) for one in POLICIES)
    zone = {"timezone": arguments.zone or times.zone()} if "cron_expression" in when else {}
    return {**when, **zone, **{field: value for field, value in values if value is not None}}


def at_event(event: tuple[str, str | None]) -> Json:
    key, value = event
    return {"on_event": key} if value is None else {"on_event": key, "event_value": value}


def _is_cron(one: Json) -> bool:
    return one["cron_expression"] is not None and one["cron_expression"] != REBOOT


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
    """Prints the name of a schedule that was put, and notes its next times."""
    terminal.show(answer, [done["name"]])
    if terminal.quiet:
        return
    found = client.call("schedule.get", schedule_id=done["schedule_id"])
    verb = "new" if done["created"] else "changed"
    terminal.note(f"schedule {found['name']} is {verb}; {_next_instants(found)}")


def _next_instants(one: Json) -> str:
    """In the user's zone."""
    if not one["enabled"]:
        return "it is off"
    if not one["upcoming"]:
        return _without_times(one)
    now = format.now()
    first, *others = one["upcoming"][:NEXT_SHOWN]
    late = f", {repeat.jitter(one)} later" if one["jitter_ms"] else ""
    instants = [format.instant_and_delay(first, now) + late, *(prose.instant(at, now) for at in others)]
    where = one["timezone"] if one["timezone"] == times.zone() else f"your time; cron by {one['timezone']}"
    return f"next: {'; then '.join(instants)} ({where if _is_cron(one) else repeat.when(one)})"


def _without_times(one: Json) -> str:
    if one["on_event"] is not None:
        return f"it adds a job at every `semantica emit {repeat.event(one)}`"
    if one["cron_expression"] == REBOOT:
        return "it adds a job when the daemon starts for the first time after a reboot"
    return "it never fires again"


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
    return f"added job {prose.short_id(job_id)}; {_next(done, terminal)}"


def _next(done: Json, terminal: Terminal) -> str:
    if done["next_trigger_at"] is not None:
        return f"next: {format.instant_and_delay(done['next_trigger_at'], format.now())}"
    found = terminal.call("schedule.get", schedule_id=done["schedule_id"])
    return _without_times(found) if found["enabled"] else "the schedule is off"


CRON_HELP = "'0 3 * * *', with seconds '30 0 3 * * *', @daily, @hourly, @every 90m, @reboot …"
EVERY_HELP = "10m, 'daily 02:00', 'weekdays 9:00', 'monday 4pm', '0 3 * * *' (cron), @daily, @reboot …"
ZONE = Option("--zone ZONE", "the time zone of times of day (default: yours)")
OVERLAP = Option(
    "--overlap {queue,skip,supersede}",
    "its previous job is not over: wait for it (queue), add none, or replace it",
    field="overlap",
)
JITTER = Option("--jitter D", "delay each job by up to this, differently each time", times.duration, "jitter_ms")
POLICIES = [
    Option("--misfire {run_once,skip,run_all}",
           "times missed while no daemon ran: add one job (run_once), none, or all", field="misfire"),
    OVERLAP,
    JITTER,
]  # fmt: skip
PUT = [
    Option("name NAME", "an existing schedule of this name is replaced"),
    Option("--template T", "the template of its jobs, by name or id", required=True),
    Option("--cron CRON", CRON_HELP),
    Option("--every WHEN", EVERY_HELP, repeat.check),
    Option("--on-event KEY[=VALUE]", "at every `semantica emit KEY[=VALUE]`", job_options.event),
    ZONE,
    *POLICIES,
    Option("--param KEY=VALUE",
           "overrides a field of the template's payload (repeat for more)", parameter, action="append", default=[]),
    Option("--params JSON", "the same, as an object"),
    Option("--disabled", "off at first; `semantica schedule enable` turns it on"),
]  # fmt: skip
LIMIT = Option("-n, --limit N", "at most this many (5)", positive, default=5)
COMMAND = Subcommands(
    "Schedules, which add jobs by time or at events, each from a template.",
    {
        "list": Command("List all schedules.", list_schedules, examples="semantica schedule list --json"),
        "show": Command("Show everything about one schedule.", show, [NAME], "semantica schedule show nightly"),
        "put": Command(
            "Make a schedule, or change the one of that name. Prints its name.",
            put,
            PUT,
            """
  semantica schedule put nightly --template backup --cron '0 3 * * *' --zone Europe/Berlin
  semantica schedule put poll --template fetch --every 5m --overlap skip --param url=https://example.org
  semantica schedule put docs --template docs --on-event git:commit""",
        ),
        "enable": each_name("schedule.enable", "Turn schedules on, from now on.", "nightly",
                            lambda done, terminal: f"is on; {_next(done, terminal)}"),
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
  semantica add --every 'daily 03:00' --name backup -- ./backup.sh   the short way to make one
  semantica on git:commit -- make docs                                one that adds a job at every event
  semantica schedule put nightly --template backup --cron '@daily' --misfire skip
  semantica schedule next nightly
  semantica schedule trigger nightly                                  a job now; its times do not change""",
)  # fmt: skip
