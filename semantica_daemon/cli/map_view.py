"""What `semantica map` prints of its jobs: their output, with --results into files as well, or with --json one line for
each of them; and at the end one sentence about them all."""

import sys

from semantica_daemon import prose
from semantica_daemon.cli import outcome
from semantica_daemon.cli.command import Any, Json, Terminal
from semantica_daemon.cli.map_bar import MapBar
from semantica_daemon.cli.map_items import Texts
from semantica_daemon.cli.map_output import EndedJob, TaggedWriter, Writer, to_streams
from semantica_daemon.cli.map_results import ResultFiles


class MapView:
    def __init__(self, arguments: Any, terminal: Terminal, texts: Texts) -> None:
        wanted = (sys.stderr.isatty() or arguments.bar) and not (terminal.quiet or arguments.no_bar)
        self.bar = MapBar(wanted)
        self._terminal = terminal
        self._texts = texts
        self._tag = arguments.tag
        self._results = arguments.results
        terminal.before_note = self.bar.erase

    def open_writer(self, job: EndedJob) -> Writer:
        """Called once for each job that has ended, also when it has no output."""
        writers: list[Writer] = []
        if not self._terminal.as_json:
            writers.append(TaggedWriter(self._texts[job.number]) if self._tag else to_streams)
        if self._results is not None:
            writers.append(ResultFiles(self._results, self._texts[job.number], job.number))

        def write(stream: str, data: bytes) -> None:
            self.bar.erase()
            for one in writers:
                one(stream, data)
            self.bar.is_at_start = self._terminal.as_json or data.endswith(b"\n")

        return write

    def shown(self, job: EndedJob, reply: Json) -> None:
        if self._terminal.as_json:
            self.bar.erase()
            code = outcome.exit_code({**reply, "state": job.state})
            about = {"number": job.number, "item": self._texts[job.number], "job_id": job.job_id}
            self._terminal.print_json({**about, "state": job.state, "exit_code": code}, lines=True)

    def summarize(self, name: str, label: str, counts: Json, took_s: float) -> None:
        """`counts`: items by how they ended."""
        self.bar.erase()
        parts = [f"{number} {word}" for word, number in counts.items() if number]
        text = f"map {name}: {', '.join(parts) or 'no items'}, in {prose.duration(took_s * 1000)}"
        if counts.get("failed"):
            text += f"; `semantica list --group {label} --state failed` shows the failed ones"
        self._terminal.note(text)
