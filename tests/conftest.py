"""Fixtures for all tests: the anyio backend, homes, and a daemon on a manual clock or in real time."""

import gc
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from semantica_daemon.quick_start import GARBAGE_AFTER
from tests import homes
from tests.harness import Harness, ManualClock, daemon

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
LONGEST_FILES = [
    "crash/test_kill_loop.py",
    "test_budgets.py",
    "stateful/test_daemon_machine.py",
    "crash/test_failpoints.py",
    "crash/test_orphans.py",
    "stateful/test_store_machine.py",
    "crash/test_failpoints_waiting.py",
    "engine/test_start.py",
    "rpc/test_slow_readers.py",
    "cli/test_run.py",
    "client/test_autostart.py",
    "engine/test_shutdown.py",
    "model/test_schedule.py",
    "engine/test_desktop.py",
    "crash/test_recovery.py",
    "rpc/test_events.py",
]


def pytest_configure(config: pytest.Config) -> None:
    keep_bytecode(config)
    handle_ignored_signals()


def keep_bytecode(config: pytest.Config) -> None:
    """Hundreds of processes are started, and each would compile all it imports where no bytecode may be written."""
    if not hasattr(config, "workerinput"):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / ".pytest_cache" / "bytecode")


def handle_ignored_signals() -> None:
    """Processes under test get every signal's default action, also when nohup or a shell's `&` ignores some here.

    An ignored signal stays ignored in a new program, a handled one does not; so this process handles it by doing
    nothing, and still survives a hang-up under nohup.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first, so that no worker ends with one alone; leaves soak tests to scripts/soak."""
    items.sort(key=lambda item: order_of(item.path))
    if "SEMANTICA_SOAK" not in os.environ:
        for item in items:
            if item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.skip(reason="scripts/soak runs it"))


def pytest_collection_finish() -> None:
    """Takes what the collection made, which stays, out of all later garbage collections, and makes these rare, as the
    daemon does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER)


def order_of(path: Path) -> int:
    name = path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""
    return LONGEST_FILES.index(name) if name in LONGEST_FILES else len(LONGEST_FILES)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Lists what could not be tested for want of a tool, last, where it is seen."""
    reasons = {report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])}
    for reason in sorted(reason for reason in reasons if "NOT TESTED" in reason):
        terminalreporter.write_line(reason.removeprefix("Skipped: "), yellow=True, bold=True)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """Keeps open what earlier tests left to the garbage collector, so that a test can count descriptors."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def home() -> Iterator[Path]:
    """A home with a migrated database: a daemon starts in it without migrating."""
    with homes.migrated_home() as folder:
        yield folder


@pytest.fixture
def empty_home() -> Iterator[Path]:
    """A home without a database, for tests of the first start and of migrations."""
    with homes.empty_home() as folder:
        yield folder


@pytest.fixture
async def manual(home: Path) -> AsyncIterator[Harness]:
    """A daemon with two slots whose clock only moves by `advance`."""
    async with daemon(home, ManualClock(), "[daemon]\nmax_slots = 2\n") as harness:
        yield harness


@pytest.fixture
async def real(home: Path) -> AsyncIterator[Harness]:
    """A daemon with two slots, in real time."""
    async with daemon(home, None, "[daemon]\nmax_slots = 2\n") as harness:
        yield harness
