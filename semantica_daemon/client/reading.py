"""`semantica logs`: what a job has written, on the streams it wrote to; of a handler, what it has logged."""

from collections import deque
from collections.abc import Iterable

from semantica_daemon.client import events, ids, outcome, output
from semantica_daemon.client.codes import USAGE
from semantica_daemon.client.connection import ENDS, LONG_WAIT_MS, Client
from semantica_daemon.client.parser import Command, Namespace, Parser, of
from semantica_daemon.client.running import CUT, DESCRIPTORS, follow, put
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Failed, Terminal


class Tail:
    """The last lines of what it is given, each with its stream; all of it when `most` is None."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._parts: deque[tuple[str, bytes]] = deque()
        self._ends = 0

    def add(self, pieces: Iterable[tuple[str, bytes]]) -> None:
        for stream, data in pieces:
            for part in self._last(data).splitlines(keepends=True) if self._most is not None else [data]:
                self._parts.append((stream, part))
                self._ends += part.endswith(b"\n")
        while self._most is not None and self._lines() > self._most:
            self._drop()

    def _last(self, data: bytes) -> bytes:
        """As many lines of it as are wanted: most of a long log is never looked at."""
        place = len(data) - data.endswith(b"\n")
        for _ in range(self._most or 0):
            place = data.rfind(b"\n", 0, place)
            if place < 0:
                return data
        self.take()
        return data[place + 1 :]

    def take(self) -> Iterable[tuple[str, bytes]]:
        parts, self._parts, self._ends = self._parts, deque(), 0
        return parts

    def _lines(self) -> int:
        return self._ends + (not self._parts[-1][1].endswith(b"\n")) if self._parts else 0

    def _drop(self) -> None:
        while self._parts:
            if self._parts.popleft()[1].endswith(b"\n"):
                self._ends -= 1
                return


def logs(arguments: Namespace, terminal: Terminal) -> int:
    if arguments.lines is not None and arguments.lines < 0:
        raise Failed("logs: -n takes a number of lines", USAGE)
    with terminal.client() as client:
        job = client.call("job.get", job_id=ids.resolve(client, terminal.where, arguments.id))
        if job["execution_mode"] == "IN_PROCESS":
            return _of_handler(client, terminal, job, arguments)
        if arguments.run is not None:
            run = {"run": arguments.run}
            _written(client, terminal, job, arguments, run, LONG_WAIT_MS if arguments.follow else 0)
            return 0
        last = _written(client, terminal, job, arguments, {}, 0)
        if arguments.follow:
            _follow(client, terminal, job["job_id"], arguments, last)
    return 0


def _written(client: Client, terminal: Terminal, job: Json, arguments: Namespace, run: Json, wait_ms: int) -> Json:
    """Of one run, as far as it has got, or to its end when there is a wait; the last answer."""
    tail = Tail(None if wait_ms else arguments.lines)
    for reply in output.of_run(client, job["job_id"], run, wait_ms):
        tail.add(output.pieces(reply))
        if arguments.lines is None or wait_ms:
            _put(terminal, arguments, reply, tail.take())
    _put(terminal, arguments, reply, tail.take())
    if reply["truncated"]:
        terminal.chat(CUT)
    if reply["run_id"] is None and not arguments.follow:
        terminal.chat(f"job {ids.short(job['job_id'])} has not run: it is {reply['state']}")
    return reply


def _put(terminal: Terminal, arguments: Namespace, reply: Json, pieces: Iterable[tuple[str, bytes]]) -> None:
    for stream, data in pieces:
        if arguments.only in (None, stream):
            if terminal.as_json:
                line = {"run": reply["run"], "stream": stream, "text": data.decode("utf-8", "replace")}
                terminal.document(line, lines=True)
            else:
                put(DESCRIPTORS[stream], data)


def _follow(client: Client, terminal: Terminal, job_id: str, arguments: Namespace, last: Json) -> None:
    if not (last["eof"] and last["state"] in ENDS):
        last = follow(
            client, terminal, job_id, lambda reply: _put(terminal, arguments, reply, output.pieces(reply)), last
        )
    if last["state"] != "DONE":
        terminal.chat(outcome.sentence(last, job_id))


def _of_handler(client: Client, terminal: Terminal, job: Json, arguments: Namespace) -> int:
    """A handler writes no log of its own: what it said by ctx.log is in the stream."""
    said = events.stored(client, {"job_id": job["job_id"], "event_types": ["job.log"]}, 0)
    if arguments.lines is not None:
        said = said[max(0, len(said) - arguments.lines) :]
    for event in said:
        _line(terminal, event)
    if arguments.follow and job["state"] not in ENDS:
        since = max((event["sequence"] for event in said), default=0)
        wanted = ["job.log", *(f"job.{state.lower()}" for state in ENDS)]
        for event in client.subscribe(job_id=job["job_id"], since=since, event_types=wanted):
            if event["event_type"] != "job.log":
                break
            _line(terminal, event)
    return 0


def _line(terminal: Terminal, event: Json) -> None:
    if terminal.as_json:
        terminal.document(event, lines=True)
    else:
        terminal.data(events.text(event))
        terminal.flush()


def options(parser: Parser) -> None:
    parser.add_argument("id", type=of(ids.check), metavar="ID", help="an id, the beginning of one, or @last")
    parser.add_argument("-f", "--follow", action="store_true", help="until the job has ended")
    parser.add_argument("-n", "--lines", type=int, metavar="N", help="only the last N lines (of what is there now)")
    parser.add_argument("--run", type=int, metavar="N", help="of the Nth attempt (default: the newest)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--stdout", dest="only", action="store_const", const="stdout", help="only what went to stdout")
    only.add_argument("--stderr", dest="only", action="store_const", const="stderr", help="only what went to stderr")


LOGS = Command(
    "What a job has written: its stdout on stdout, its stderr on stderr.",
    logs,
    options,
    """
  semantica logs @last
  semantica logs -f 3f2a
  semantica logs -n 20 --stderr 3f2a 2>&1 | less
  semantica logs --run 1 3f2a          the first of several attempts

With --json: one line for each piece, {"run": 1, "stream": "stdout", "text": "…"}.""",
)
