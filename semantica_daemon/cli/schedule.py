"""`semantica schedule`: schedules, which add jobs by cron, each from a template."""

from collections.abc import Callable

from semantica_daemon import prose
from semantica_daemon.cli import format, last_job, tables, times
from semantica_daemon.cli.command import Command, Subcommands
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.job_text import short_json
from semantica_daemon.cli.json_argument import parse_object
from semantica_daemon.cli.parser import Namespace, Parser, positive, type_of
from semantica_daemon.cli.schedule_options import add_policies, cron, policies
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.client import Client
from semantica_daemon.client.exit_codes import USAGE
from semantica_daemon.client.json_types import Json

COLUMNS = ("name", "state", "cron", "zone", "template", "next", "last")
NEXT_SHOWN = 3
MOST_UPCOMING = 100


def list_schedules(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("schedule.list")
    if terminal.as_json:
        terminal.print_json(found)
    elif terminal.quiet:
        for one in found["schedules"]:
            terminal.print(one["schedule_id"])
    elif found["schedules"]:
        tables.table(COLUMNS, [_row(one) for one in found["schedules"]], "template")
    else:
        terminal.note("no schedule yet; `semantica add --every '0 3 * * *' -- COMMAND` makes one")
    return 0


def _row(one: Json) -> list[object]:
    state = "on" if one["enabled"] else "off"
    instants = (format.instant(one["next_trigger_at"]), format.instant(one["last_triggered_at"]))
    return [one["name"], state, one["cron_expression"], one["timezone"], one["template_name"], *instants]


def show(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("schedule.get", schedule_id=arguments.name)
    if terminal.as_json:
        terminal.print_json(found)
    elif terminal.quiet:
        terminal.print(found["schedule_id"])
    else:
        tables.pairs(_rows(found))
    return 0


def _rows(one: Json) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [("name", one["name"]), ("id", one["schedule_id"])]
    rows += [("state", "on" if one["enabled"] else "off"), ("cron", f"{one['cron_expression']} ({one['timezone']})")]
    rows += [("template", one["template_name"]), ("misfire", one["misfire"]), ("overlap", one["overlap"])]
    if one["param_overrides"]:
        rows.append(("parameters", short_json(one["param_overrides"])))
    now = format.now()
    rows += [
        ("next" if not number else "then", format.instant_and_delay(at, now))
        for number, at in enumerate(one["upcoming"])
    ]
    rows.append(("last", format.instant(one["last_triggered_at"])))
    if one["last_job_id"] is not None:
        rows.append(("last job", one["last_job_id"]))
    return [*rows, ("created", format.instant(one["created_at"])), ("changed", format.instant(one["updated_at"]))]


def put(arguments: Namespace, terminal: Terminal) -> int:
    params: Json = {"name": arguments.name, "template_id": arguments.template, "cron_expression": arguments.cron}
    params |= {"timezone": arguments.zone or times.zone(), **({"enabled": False} if arguments.disabled else {})}
    params |= policies(arguments)
    if overrides := _overrides(arguments):
        params["param_overrides"] = overrides
    with terminal.client() as client:
        done = client.call("schedule.put", **params)
        print_put(terminal, client, done, done)
    return 0


def _overrides(arguments: Namespace) -> Json:
    if arguments.params is not None and arguments.param:
        raise CommandFailed("--param and --params are both given", USAGE, "give only one of them")
    return dict(arguments.param) if arguments.params is None else parse_object(arguments.params, "the parameters")


def parameter(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not (name and given):
        raise ValueError(f"{text!r} is not a parameter: write KEY=VALUE, or --params JSON for values that are not text")
    return name, value


def print_put(terminal: Terminal, client: Client, done: Json, answer: Json) -> None:
    """Prints the id of a schedule that was put, and notes its next instants."""
    if terminal.as_json:
        terminal.print_json(answer)
    else:
        terminal.print(done["schedule_id"])
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
    mine = one["timezone"] == times.zone()
    where = f" ({one['timezone']})" if mine else f" (your time; cron by {one['timezone']})"
    return (
        "; then ".join([f"next: {format.instant_and_delay(first, now)}", *(prose.instant(at, now) for at in others)])
        + where
    )


def print_next(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("schedule.get", schedule_id=arguments.name, upcoming=min(arguments.limit, MOST_UPCOMING))
    instants = found["upcoming"]
    if terminal.as_json:
        terminal.print_json({"schedule_id": found["schedule_id"], "name": found["name"], "upcoming": instants})
        return 0
    now = format.now()
    for at in instants:
        terminal.print(prose.instant(at, now) if terminal.quiet else format.instant_and_delay(at, now))
    if not instants:
        terminal.note(f"schedule {found['name']}: {_next_instants(found)}")
    elif len(instants) < arguments.limit:
        terminal.note(f"no more than {len(instants)} are computed")
    return 0


def enable(arguments: Namespace, terminal: Terminal) -> int:
    return _each(arguments, terminal, "schedule.enable", lambda done: f"is on; next: {_next(done)}")


def disable(arguments: Namespace, terminal: Terminal) -> int:
    return _each(arguments, terminal, "schedule.disable", lambda _: "is off; the jobs it added stay")


def delete(arguments: Namespace, terminal: Terminal) -> int:
    kept = "is deleted; its template and the jobs it added stay"
    return _each(arguments, terminal, "schedule.delete", lambda _: kept)


def trigger(arguments: Namespace, terminal: Terminal) -> int:
    return _each(arguments, terminal, "schedule.trigger", lambda done: _report_trigger(done, terminal))


def _report_trigger(done: Json, terminal: Terminal) -> str:
    if done["job"] is None:
        return "added no job: its previous one is not over, and overlap is skip"
    last_job.remember(terminal.paths, done["job"]["job_id"])
    if not terminal.as_json:
        terminal.print(done["job"]["job_id"])
    return f"added job {prose.short_id(done['job']['job_id'])}; next: {_next(done)}"


def _next(done: Json) -> str:
    return "-" if done["next_trigger_at"] is None else format.instant_and_delay(done["next_trigger_at"], format.now())


def _each(arguments: Namespace, terminal: Terminal, method: str, sentence: Callable[[Json], str]) -> int:
    with terminal.client() as client:
        for name in arguments.name:
            done = client.call(method, schedule_id=name)
            if terminal.as_json:
                terminal.print_json(done, lines=len(arguments.name) > 1)
            terminal.note(f"schedule {name} {sentence(done)}")
    return 0


def _name_option(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name or its id")


def _names_option(parser: Parser) -> None:
    parser.add_argument("name", nargs="+", metavar="NAME", help="names or ids")


def _put_options(parser: Parser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="an existing schedule of this name is replaced")
    add("--template", required=True, metavar="T", help="the template of its jobs, by name or id")
    add(
        "--cron",
        required=True,
        type=type_of(cron),
        metavar="CRON",
        help="'0 3 * * *', with seconds '30 0 3 * * *', @daily, @hourly …",
    )
    add("--zone", metavar="ZONE", help="the time zone of CRON (default: yours)")
    add_policies(parser)
    add("--param", action="append", default=[], type=type_of(parameter), metavar="KEY=VALUE",
        help="overrides a field of the template's payload (repeat for more)")  # fmt: skip
    add("--params", metavar="JSON", help="the same, as an object")
    add("--disabled", action="store_true", help="off at first; `semantica schedule enable` turns it on")


def _next_options(parser: Parser) -> None:
    _name_option(parser)
    parser.add_argument("-n", "--limit", type=type_of(positive), default=5, metavar="N", help="at most this many (5)")


COMMAND = Subcommands(
    "Schedules, which add jobs by cron, each from a template.",
    {
        "list": Command("List all schedules.", list_schedules, examples="\n  semantica schedule list --json"),
        "show": Command(
            "Show everything about one schedule.", show, _name_option, "\n  semantica schedule show nightly"
        ),
        "put": Command(
            "Make a schedule, or change the one of that name. Prints its id.",
            put,
            _put_options,
            """
  semantica schedule put nightly --template backup --cron '0 3 * * *' --zone Europe/Berlin
  semantica schedule put poll --template fetch --cron '*/5 * * * *' --overlap skip --param url=https://example.org""",
        ),
        "enable": Command(
            "Turn schedules on, from now on.", enable, _names_option, "\n  semantica schedule enable nightly"
        ),
        "disable": Command("Turn schedules off.", disable, _names_option, "\n  semantica schedule disable nightly"),
        "trigger": Command(
            "Add a job now, whatever its cron says. Prints the job's id.",
            trigger,
            _names_option,
            "\n  semantica schedule trigger nightly",
        ),
        "delete": Command(
            "Delete schedules; the jobs they added stay.",
            delete,
            _names_option,
            "\n  semantica schedule delete nightly",
        ),
        "next": Command(
            "Show its next instants.", print_next, _next_options, "\n  semantica schedule next nightly -n 3"
        ),
    },
    """
  semantica schedule
  semantica add --every '0 3 * * *' --name backup -- ./backup.sh     the short way to make one
  semantica schedule put nightly --template backup --cron '@daily' --misfire skip
  semantica schedule next nightly
  semantica schedule trigger nightly                                  a job now; its instants do not change""",
)
