"""What a process says of its own run, by the token it was given: checked here, written by the verbs of `report`."""

import msgspec

from semantica_daemon.errors import InvalidParams, RunOver
from semantica_daemon.model.nesting import MOST, too_deep
from semantica_daemon.model.outcome import LARGEST_RESULT
from semantica_daemon.rpc.answers import Rooms
from semantica_daemon.store.transition import Running
from semantica_daemon.store.writes.report import Line, Report, Result
from semantica_daemon.wire.run import LogLineParams, Progress, ProgressParams, ResultParams, RunParams

LARGEST_PAYLOAD = 65_536


def progress(rooms: Rooms, said: ProgressParams) -> Report:
    run = _run(rooms, said)
    return Report(run, progress=Progress(**{name: getattr(said, name) for name in Progress.__struct_fields__}))


def line(rooms: Rooms, said: LogLineParams) -> Report:
    run = _run(rooms, said)
    if said.payload is not None:
        _checked(msgspec.json.encode(said.payload), LARGEST_PAYLOAD, "$.payload")
    return Report(run, (Line(said.message, said.level, said.payload),))


def result(rooms: Rooms, said: ResultParams) -> Result:
    run = _run(rooms, said)
    return Result(run, _checked(msgspec.json.encode(said.result), LARGEST_RESULT, "$.result"))


def _run(rooms: Rooms, said: RunParams) -> Running:
    run = rooms.tokens.get(said.run_token)
    if run is None:
        raise RunOver("no run that is under way has this token", "it is $SEMANTICA_RUN_TOKEN of the job's own process")
    return run


def _checked(text: bytes, most: int, path: str) -> str:
    if len(text) > most:
        raise InvalidParams(f"{len(text)} bytes, at most {most} are kept - at `{path}`", "write a file", path=path)
    if too_deep(text):
        raise InvalidParams(f"nested deeper than {MOST} levels - at `{path}`", "write a file", path=path)
    return text.decode()
