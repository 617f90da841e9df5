"""The `run` family: reports of a process about its own run, by its token. The verbs of `report` store them."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from semantica_daemon.errors import InvalidParams, RunOver
from semantica_daemon.model.nesting import MOST, too_deep
from semantica_daemon.model.outcome import LARGEST_RESULT
from semantica_daemon.rpc.binding import Binding, Write
from semantica_daemon.store.run_transition import Running
from semantica_daemon.store.writes import report
from semantica_daemon.store.writes.report import Line, Report, RunResult
from semantica_daemon.wire.run import LogLineParams, Progress, ProgressParams, ResultParams, RunParams

LARGEST_PAYLOAD = 65_536


class RunMethods(Struct, frozen=True):
    """`tokens`: the runs that are under way, by their token."""

    tokens: Mapping[str, Running]

    def bindings(self) -> dict[str, Binding]:
        return {
            "run.progress": Write(report.report, self._progress),
            "run.log": Write(report.report, self._line),
            "run.result": Write(report.keep_result, self._result),
        }

    def _progress(self, params: ProgressParams) -> Report:
        fields = {name: getattr(params, name) for name in Progress.__struct_fields__}
        return Report(self._run(params), progress=Progress(**fields))

    def _line(self, params: LogLineParams) -> Report:
        run = self._run(params)
        if params.payload is not None:
            _checked(msgspec.json.encode(params.payload), LARGEST_PAYLOAD, "$.payload")
        return Report(run, (Line(params.message, params.level, params.payload),))

    def _result(self, params: ResultParams) -> RunResult:
        run = self._run(params)
        return RunResult(run, _checked(msgspec.json.encode(params.result), LARGEST_RESULT, "$.result"))

    def _run(self, params: RunParams) -> Running:
        run = self.tokens.get(params.run_token)
        if run is None:
            hint = "it is $SEMANTICA_RUN_TOKEN of the job's own process"
            raise RunOver("no run that is under way has this token", hint)
        return run


def _checked(text: bytes, most: int, path: str) -> str:
    if len(text) > most:
        raise InvalidParams(f"{len(text)} bytes, at most {most} are kept", "write a file", path=path)
    if too_deep(text):
        raise InvalidParams(f"nested deeper than {MOST} levels", "write a file", path=path)
    return text.decode()
