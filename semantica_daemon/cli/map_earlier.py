"""What an earlier command has left of a map: ends that were not shown, and jobs that are left or to be run again.

With items, `map_intake` adds them again and learns from the replies what is left; without items the jobs are listed.
"""

from collections.abc import Callable, Iterator
from functools import partial

from semantica_daemon.cli.map_intake import EMPTY, MapIntake
from semantica_daemon.cli.map_record import MapRecord, without_turn
from semantica_daemon.cli.map_run import PAGE, MapRun
from semantica_daemon.client.client import END_EVENTS, ENDED_STATES, EVENTS_PAGE, LIVE_STATES
from semantica_daemon.client.json_types import Json
from semantica_daemon.client.pipeline import Pipeline

NEEDED = ("job_id", "state", "generation", "subject_key", "idempotency_key", "truncated")
NEEDED_OF_DONE = ("job_id", "state")


def replay(pipeline: Pipeline, record: MapRecord, run: MapRun) -> int:
    """Passes on the ends that no command has shown yet; returns the sequence up to which they were."""
    since = record.sequence
    while True:
        page = pipeline.call("event.list", since=since, limit=EVENTS_PAGE, **_filter(record))
        if page["gap"]:
            run.on_gap()
        for event in page["events"]:
            run.on_event(event)
        record.epoch = page["epoch"]
        if page["next_sequence"] == since:
            return since
        since = page["next_sequence"]


def subscribe(pipeline: Pipeline, record: MapRecord, run: MapRun, since: int) -> None:
    pipeline.subscribe(run.on_event, run.on_gap, since=since, **_filter(record))


def _filter(record: MapRecord) -> Json:
    return {"epoch": record.epoch, "user_tag": record.label, "event_types": list(END_EVENTS)}


class EarlierJobs:
    """The jobs of a map that is resumed without its items."""

    def __init__(self, pipeline: Pipeline, run: MapRun, intake: MapIntake) -> None:
        self._pipeline = pipeline
        self._run = run
        self._intake = intake
        self._numbers: set[int] = set()

    def take_up(self) -> None:
        """Called after `replay`. Follows what is left, and runs again what is to be run again."""
        run, record = self._run, self._run.record
        others, unknown = 0, len(run.unknown)
        for job in self._newest_turns():
            if job["state"] == "DONE" and job["job_id"] not in run.unknown:
                run.count_earlier(done=1)
                continue
            others += job["job_id"] not in run.unknown
            self._take(job)
        self._adopt_unknown()
        run.look_up = self._look_up
        if not record.has_turns:  # else those that are DONE were listed
            run.count_earlier(done=max(0, record.taken - others - unknown))
        for number in range(1, max(self._numbers, default=0)):
            if number not in self._numbers:
                run.skip(number)

    def _take(self, job: Json) -> None:
        if job["state"] in self._run.runs_again:
            self._repeat(job)
        elif job["state"] in LIVE_STATES or job["job_id"] in self._run.unknown:
            self._adopt(job)
        else:
            self._run.count_earlier(failed=1)

    def _repeat(self, job: Json) -> None:
        if job["truncated"]:
            job = self._pipeline.call("job.get", job_id=job["job_id"])
        key, turn = without_turn(job["idempotency_key"])
        self._run.forget(job["job_id"])
        self._run.record.has_turns = True
        self._intake.repeat(self._number_of(job), turn + 1, key, job["payload"])

    def _adopt(self, job: Json) -> None:
        self._run.adopt(self._number_of(job), job["job_id"])

    def _adopt_unknown(self) -> None:
        """Jobs whose end no command has shown, in the order of their ends."""
        found: dict[str, Json | None] = {}
        waiting = list(self._run.unknown)
        for job_id in waiting:
            keep: Callable[[Json | None], None] = partial(found.__setitem__, job_id)
            self._pipeline.send("job.get", {"job_id": job_id}, keep, lambda _, keep=keep: keep(None))  # type: ignore[misc]
        while len(found) < len(waiting):
            self._pipeline.poll(1.0)
        for job_id in waiting:
            job = found[job_id]
            if job is None:
                self._run.forget(job_id)
            else:
                self._adopt(job)

    def _look_up(self, job_id: str) -> None:
        """For a job that has ended meanwhile; retention may have removed it."""
        self._pipeline.send("job.get", {"job_id": job_id}, self._adopt, lambda _: self._run.forget(job_id))

    def _number_of(self, job: Json) -> int:
        """The number that the earlier command gave to the item."""
        number, subject = int(job["generation"]), job["subject_key"]
        self._intake.texts.put(number, "" if subject == EMPTY else subject)
        self._numbers.add(number)
        return number

    def _newest_turns(self) -> Iterator[Json]:
        """The job of each item; of items that were run again, that of the newest turn. Items that are done are left out
        unless some were run again."""
        if not self._run.record.has_turns:
            yield from self._list([state for state in (*LIVE_STATES, *ENDED_STATES) if state != "DONE"])
            return
        newest: dict[str, tuple[int, Json]] = {}
        for job in self._list([*LIVE_STATES, *ENDED_STATES]):
            key, turn = without_turn(job["idempotency_key"])
            if turn > newest.get(key, (0,))[0]:
                newest[key] = turn, self._needed(job)
        for _, job in newest.values():
            yield job

    def _needed(self, job: Json) -> Json:
        """The fields that are used here: there may be a hundred thousand jobs."""
        names = NEEDED if job["state"] != "DONE" or job["job_id"] in self._run.unknown else NEEDED_OF_DONE
        more = {"payload": job["payload"]} if job["state"] in self._run.runs_again else {}
        return {name: job[name] for name in names} | more

    def _list(self, states: list[str]) -> Iterator[Json]:
        filters = {"chain_group_id": self._run.record.label, "state": states, "sort": "oldest", "limit": PAGE}
        cursor: Json = {}
        while True:
            page: Json = self._pipeline.call("job.list", **filters, **cursor)
            yield from page["items"]
            if page["next_cursor"] is None:
                return
            cursor = {"cursor": page["next_cursor"]}
