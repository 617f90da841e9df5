"""How `semantica map` begins: a new map, or one that goes on (--resume) with the jobs that it has."""

from semantica_daemon.cli.command import Any
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.halt import Halt
from semantica_daemon.cli.map_items import Items
from semantica_daemon.cli.map_record import MapRecord, MapRecords, derived_name
from semantica_daemon.client.client import LIVE_STATES
from semantica_daemon.client.exit_codes import DATA, TEMPORARY
from semantica_daemon.client.pipeline import Pipeline


def name_of(arguments: Any, command: list[str], cwd: str, items: Items | None, records: MapRecords) -> str:
    """The name that was given, else that of the same command with the same items, or with the same first item when they
    are read from a stream; without a command, the name of the newest map."""
    if arguments.resume or arguments.name:
        return str(arguments.resume or arguments.name)
    if items is None:
        newest = records.newest()
        if newest is None:
            raise CommandFailed("map: there is no map to resume", exit_code=DATA)
        return newest.name
    return derived_name(command, cwd, items.known())


def record_of(
    pipeline: Pipeline, records: MapRecords, name: str, command: list[str], cwd: str, arguments: Any
) -> tuple[MapRecord, bool]:
    """The record of the map, which is stored, and whether the map has jobs already."""
    with records.locked(name):
        known = records.find(name)
        if known is not None and arguments.resume is not None:
            if command and command != known.command:
                problem = f"map {name} runs another command: {' '.join(known.command)}"
                raise CommandFailed(problem, "resume it with that command, or give this map another --name", DATA)
            records.keep(known)  # it is the newest now
            return known, True
        if known is not None:
            _refuse_live(pipeline, known)
        if not command:
            hint = "`semantica map --resume` goes on with the newest one; a new one needs its command, after --"
            raise CommandFailed(f"there is no map {name} to resume", hint, DATA)
        record = MapRecord.make(name, command, cwd)
        newest = pipeline.call("event.list", sort="newest", limit=1)
        record.sequence, record.epoch = newest["next_sequence"], newest["epoch"]
        _set_policy(pipeline, record, arguments.jobs or 0, arguments.halt or Halt())
        records.keep(record)
        return record, False


def _set_policy(pipeline: Pipeline, record: MapRecord, jobs: int, halt: Halt) -> None:
    """Of a new map: how many of its jobs run at once, and whether the daemon itself starts no more after a failure."""
    record.jobs, record.halt = jobs, halt.text
    if jobs or halt.is_at_first_failure:
        limit = {"max_parallel": jobs} if jobs else {}
        on_failure = "stop" if halt.is_at_first_failure else "skip"
        pipeline.call("group.create", chain_group_id=record.label, on_failure=on_failure, **limit)


def _refuse_live(pipeline: Pipeline, known: MapRecord) -> None:
    """A map is not begun a second time while jobs of the first are left."""
    page = pipeline.call("job.list", chain_group_id=known.label, state=list(LIVE_STATES), limit=1)
    if page["items"]:
        hint = f"`semantica map --resume {known.name}` goes on with it; --name gives this one another name"
        raise CommandFailed(f"map {known.name} is not finished", hint, TEMPORARY)
