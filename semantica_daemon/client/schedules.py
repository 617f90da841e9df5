"""`semantica schedule`: jobs that are made by cron, each from a template."""

from collections.abc import Callable

from semantica_daemon.client import draw, ids, times, words
from semantica_daemon.client.adding import policies
from semantica_daemon.client.calling import document
from semantica_daemon.client.codes import USAGE
from semantica_daemon.client.connection import Client
from semantica_daemon.client.listing import positive
from semantica_daemon.client.parser import Command, Namespace, Parser, Verbs, of
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.showing import brief
from semantica_daemon.client.terminal import Failed, Terminal

COLUMNS = ("name", "state", "cron", "zone", "template", "next", "last")
SOON = 3
MOST_UPCOMING = 100


def list_all(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("schedule.list")
    if terminal.as_json:
        terminal.document(found)
    elif terminal.quiet:
        for one in found["schedules"]:
            terminal.data(one["schedule_id"])
    elif found["schedules"]:
        draw.table(COLUMNS, [_row(one) for one in found["schedules"]], "template")
    else:
        terminal.chat("no schedule yet; `semantica add --every '0 3 * * *' -- COMMAND` makes one")
    return 0


def _row(one: Json) -> list[object]:
    state = "on" if one["enabled"] else "off"
    instants = (words.moment(one["next_trigger_at"]), words.moment(one["last_triggered_at"]))
    return [one["name"], state, one["cron_expression"], one["timezone"], one["template_name"], *instants]


def show(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("schedule.get", schedule_id=arguments.name)
    if terminal.as_json:
        terminal.document(found)
    elif terminal.quiet:
        terminal.data(found["schedule_id"])
    else:
        draw.pairs(_rows(found))
    return 0


def _rows(one: Json) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [("name", one["name"]), ("id", one["schedule_id"])]
    rows += [("state", "on" if one["enabled"] else "off"), ("cron", f"{one['cron_expression']} ({one['timezone']})")]
    rows += [("template", one["template_name"]), ("misfire", one["misfire"]), ("overlap", one["overlap"])]
    if one["param_overrides"]:
        rows.append(("parameters", brief(one["param_overrides"])))
    now = words.now()
    rows += [("next" if not number else "then", times.when(at, now)) for number, at in enumerate(one["upcoming"])]
    rows.append(("last", words.moment(one["last_triggered_at"])))
    if one["last_job_id"] is not None:
        rows.append(("last job", one["last_job_id"]))
    return [*rows, ("made", words.moment(one["created_at"])), ("changed", words.moment(one["updated_at"]))]


def put(arguments: Namespace, terminal: Terminal) -> int:
    asked: Json = {"name": arguments.name, "template_id": arguments.template, "cron_expression": arguments.cron}
    asked |= {"timezone": arguments.zone or times.zone(), **({"enabled": False} if arguments.disabled else {})}
    asked |= {policy: value for policy in ("misfire", "overlap") if (value := getattr(arguments, policy)) is not None}
    if parameters := _parameters(arguments):
        asked["param_overrides"] = parameters
    with terminal.client() as client:
        done = client.call("schedule.put", **asked)
        told(terminal, client, done, done)
    return 0


def _parameters(arguments: Namespace) -> Json:
    if arguments.params is not None and arguments.param:
        raise Failed("--param and --params are both given", USAGE, "choose one")
    return dict(arguments.param) if arguments.params is None else document(arguments.params, "the parameters")


def parameter(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not (name and given):
        raise ValueError(f"{text!r} is no parameter: write KEY=VALUE, or --params JSON for what is no text")
    return name, value


def told(terminal: Terminal, client: Client, done: Json, answer: Json) -> None:
    """Of one that was put: its id, and when it comes."""
    if terminal.as_json:
        terminal.document(answer)
    else:
        terminal.data(done["schedule_id"])
    if terminal.quiet:
        return
    found = client.call("schedule.get", schedule_id=done["schedule_id"])
    verb = "new" if done["created"] else "changed"
    terminal.chat(f"schedule {found['name']} is {verb}; {coming(found)}")


def coming(one: Json) -> str:
    """The next instants, in the user's zone."""
    if not one["enabled"] or not one["upcoming"]:
        return "it is off" if not one["enabled"] else "it never comes again"
    now = words.now()
    first, *others = one["upcoming"][:SOON]
    mine = one["timezone"] == times.zone()
    where = f" ({one['timezone']})" if mine else f" (your time; cron by {one['timezone']})"
    return "; then ".join([f"next: {times.when(first, now)}", *(times.day(at, now) for at in others)]) + where


def upcoming(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("schedule.get", schedule_id=arguments.name, upcoming=min(arguments.limit, MOST_UPCOMING))
    instants = found["upcoming"]
    if terminal.as_json:
        terminal.document({"schedule_id": found["schedule_id"], "name": found["name"], "upcoming": instants})
        return 0
    now = words.now()
    for at in instants:
        terminal.data(times.day(at, now) if terminal.quiet else times.when(at, now))
    if not instants:
        terminal.chat(f"schedule {found['name']}: {coming(found)}")
    elif len(instants) < arguments.limit:
        terminal.chat(f"no more than {len(instants)} are foretold")
    return 0


def enable(arguments: Namespace, terminal: Terminal) -> int:
    return _each(arguments, terminal, "schedule.enable", lambda done: f"is on; next: {_at(done)}")


def disable(arguments: Namespace, terminal: Terminal) -> int:
    return _each(arguments, terminal, "schedule.disable", lambda _: "is off; jobs that it has made stay")


def delete(arguments: Namespace, terminal: Terminal) -> int:
    kept = "is deleted; its template and the jobs that it has made stay"
    return _each(arguments, terminal, "schedule.delete", lambda _: kept)


def trigger(arguments: Namespace, terminal: Terminal) -> int:
    return _each(arguments, terminal, "schedule.trigger", lambda done: _triggered(done, terminal))


def _triggered(done: Json, terminal: Terminal) -> str:
    if done["job"] is None:
        return "made no job: its last one is not over yet, and overlap is skip"
    ids.remember(terminal.where, done["job"]["job_id"])
    if not terminal.as_json:
        terminal.data(done["job"]["job_id"])
    return f"made job {ids.short(done['job']['job_id'])}; next: {_at(done)}"


def _at(done: Json) -> str:
    return "-" if done["next_trigger_at"] is None else times.when(done["next_trigger_at"], words.now())


def _each(arguments: Namespace, terminal: Terminal, method: str, sentence: Callable[[Json], str]) -> int:
    with terminal.client() as client:
        for name in arguments.name:
            done = client.call(method, schedule_id=name)
            if terminal.as_json:
                terminal.document(done, lines=len(arguments.name) > 1)
            terminal.chat(f"schedule {name} {sentence(done)}")
    return 0


def _name(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name or its id")


def _names(parser: Parser) -> None:
    parser.add_argument("name", nargs="+", metavar="NAME", help="names or ids")


def _put_options(parser: Parser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="the same name again replaces it")
    add("--template", required=True, metavar="T", help="what its jobs are: a template's name or id")
    add("--cron", required=True, metavar="CRON", help="'0 3 * * *', with seconds '30 0 3 * * *', @daily, @hourly …")
    add("--zone", metavar="ZONE", help="the time zone of CRON (default: yours)")
    policies(parser)
    add("--param", action="append", default=[], type=of(parameter), metavar="KEY=VALUE",
        help="laid over the template's payload (again: one more)")  # fmt: skip
    add("--params", metavar="JSON", help="the same, as an object")
    add("--disabled", action="store_true", help="off for now; `schedule enable` starts it")


def _next_options(parser: Parser) -> None:
    _name(parser)
    parser.add_argument("-n", "--limit", type=of(positive), default=5, metavar="N", help="at most so many (5)")


SCHEDULE = Verbs(
    "Jobs that are made again and again, by cron, each from a template.",
    {
        "list": Command("All of them.", list_all, examples="\n  semantica schedule list --json"),
        "show": Command("Everything about one.", show, _name, "\n  semantica schedule show nightly"),
        "put": Command(
            "Make one, or change the one of that name. Prints its id.",
            put,
            _put_options,
            """
  semantica schedule put nightly --template backup --cron '0 3 * * *' --zone Europe/Berlin
  semantica schedule put poll --template fetch --cron '*/5 * * * *' --overlap skip --param url=https://example.org""",
        ),
        "enable": Command(
            "Let some make jobs again, from now on.", enable, _names, "\n  semantica schedule enable nightly"
        ),
        "disable": Command("Let some make no more jobs.", disable, _names, "\n  semantica schedule disable nightly"),
        "trigger": Command(
            "Make a job now, whatever its cron says. Prints the job's id.",
            trigger,
            _names,
            "\n  semantica schedule trigger nightly",
        ),
        "delete": Command(
            "Forget some; the jobs they have made stay.", delete, _names, "\n  semantica schedule delete nightly"
        ),
        "next": Command("When it comes next.", upcoming, _next_options, "\n  semantica schedule next nightly -n 3"),
    },
    """
  semantica schedule
  semantica add --every '0 3 * * *' --name backup -- ./backup.sh     the short way to make one
  semantica schedule put nightly --template backup --cron '@daily' --misfire skip
  semantica schedule next nightly
  semantica schedule trigger nightly                                  a job now; the next ones as ever""",
)
