"""A subscriber that notes each event that it was sent; all of them must be in the table, whatever happens later."""

import json
import threading
from contextlib import suppress
from pathlib import Path

from tests.crash.invariants import reading
from tests.harness import Process

STORED = "SELECT sequence, event_type, coalesce(job_id, '') FROM events"
Seen = tuple[int, str, str]


class Subscriber(threading.Thread):
    """Connects again when the daemon was killed. Within one epoch only, so not for a daemon that loses power."""

    def __init__(self, process: Process) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._lock = threading.Lock()
        self.seen: set[Seen] = set()
        self.listens = threading.Event()
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.01):
            with suppress(OSError, EOFError):
                self._listen()

    def _listen(self) -> None:
        with self._process.connect() as connection, connection.makefile("rwb") as stream:
            stream.write(b'{"jsonrpc": "2.0", "id": 1, "method": "event.subscribe", "params": {}}\n')
            stream.flush()
            while (line := stream.readline()).endswith(b"\n") and not self.ended.is_set():
                message = json.loads(line)
                self.listens.set()
                events = message["params"]["events"] if message.get("method") == "event" else []
                with self._lock:
                    self.seen |= {(one["sequence"], one["event_type"], one["job_id"] or "") for one in events}

    def check(self, home: Path) -> None:
        with self._lock:
            seen = set(self.seen)
        with reading(home) as connection:
            stored = set(connection.execute(STORED).fetchall())
        missing = sorted(seen - stored)
        assert not missing, f"{len(missing)} events were sent and are not stored: {missing[:5]}"
