"""The `run` family: reports of a process about its own run, by its token. The verbs of `report` store them."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model.nesting import MOST, too_deep
from semantica_daemon.model.outcome import LARGEST_RESULT
from semantica_daemon.rpc.binding import Binding, Write
from semantica_daemon.store.run_transition import Running
from semantica_daemon.store.writes import report
from semantica_daemon.store.writes.report import Line, Report, RunResult
from semantica_daemon.store.writes.worker_runs import RunToken
from semantica_daemon.wire.run import LogLineParams, Progress, ProgressParams, ResultParams, RunParams

LARGEST_PAYLOAD = 65_536


class RunMethods(Struct, frozen=True):
    """`tokens`: the runs of commands that are under way, by their token. `grace_ms`: returns the daemon's."""

    tokens: Mapping[str, Running]
    grace_ms: Callable[[], int]

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
            checked(msgspec.json.encode(params.payload), LARGEST_PAYLOAD, "$.payload")
        return Report(run, (Line(params.message, params.level, params.payload),))

    def _result(self, params: ResultParams) -> RunResult:
        run = self._run(params)
        return RunResult(run, checked(msgspec.json.encode(params.result), LARGEST_RESULT, "$.result"))

    def _run(self, params: RunParams) -> Running | RunToken:
        return self.tokens.get(params.run_token) or RunToken(params.run_token, self.grace_ms())


def checked(text: bytes, most: int, path: str) -> str:
    if len(text) > most:
        raise InvalidParams(f"{len(text)} bytes, at most {most} are kept", "write a file", path=path)
    if too_deep(text):
        raise InvalidParams(f"nested deeper than {MOST} levels", "write a file", path=path)
    return text.decode()
