"""The figures of jobs that are commands, and of the command line. `figures` has those of jobs without a process."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import HELD, Stand, Taken, all_done, hold
from benchmarks.processes import HERE, Daemon
from benchmarks.results import Figure, Result, Target, shown

NAMES = ("true2big", "noisy")
SLOTS = 2
QUEUE = "commands"
MEGABYTE = 1_000_000
TRUE = ["/bin/true"]
BARE_PYTHON = [sys.executable, "-I", "-c", "pass"]

Log = Callable[[str], None]


def command(*argv: str) -> dict[str, Any]:
    """A JobSpec."""
    payload = {"argv": argv, "cwd": "/"}
    return {"job_type": argv[0], "queue": QUEUE, "execution_mode": "SUBPROCESS", "payload": payload}


def trues(stand: Stand, daemon: Daemon, count: int) -> float:
    """The jobs are enqueued in a paused queue; measured from its resumption to the end of the last job."""
    wanted = daemon.counts(QUEUE)["done"] + count
    daemon.call("queue.pause", queue=QUEUE)
    last = daemon.call("job.enqueue_many", jobs=[command(*TRUE)] * count)["jobs"][-1]["job_id"]
    start = time.monotonic()
    daemon.call("queue.resume", queue=QUEUE)
    daemon.call("job.wait", job_id=last, timeout_ms=60_000)
    return count / (all_done(daemon, QUEUE, wanted) - start)


def bare_trues(threads: int) -> Callable[[Stand, int], float]:
    """As many threads as the daemon has slots."""
    spawning = [sys.executable, "-I", str(HERE / "spawning.py"), str(threads)]
    return lambda stand, count: count / float(output_of([*spawning, str(count), *TRUE]))


def log_written(stand: Stand, daemon: Daemon, count: int) -> float:
    """`count` megabytes: from the request to DONE. The log must then be complete."""
    size = count * MEGABYTE
    start = time.monotonic()
    job_id = daemon.call("job.enqueue", **command("head", "-c", str(size), "/dev/zero"))["job_id"]
    job = daemon.call("job.wait", job_id=job_id, timeout_ms=60_000)["job"]
    end = time.monotonic()
    if job["state"] != "DONE" or (written := Path(job["log_path"])).stat().st_size != size:
        raise RuntimeError(f"job {job_id} is {job['state']} and its log is not {size} bytes")
    written.unlink()
    return count / (end - start)


def file_written(stand: Stand, count: int) -> float:
    file = stand.folder / "written"
    start = time.monotonic()
    output_of(["sh", "-c", 'head -c "$1" /dev/zero | cat > "$2"', "sh", str(count * MEGABYTE), str(file)])
    end = time.monotonic()
    file.unlink()
    return count / (end - start)


def add(stand: Stand, daemon: Daemon, count: int) -> float:
    return command_line(daemon, count, "add", "--", "true")


def run(stand: Stand, daemon: Daemon, count: int) -> float:
    return command_line(daemon, count, "run", "--", "true")


def command_line(daemon: Daemon, count: int, *words: str) -> float:
    """Runs the program that is installed beside this interpreter. Its jobs have ended before the floor is measured."""
    installed = Path(sys.executable).with_name("semantica")
    semantica = [str(installed)] if installed.exists() else [sys.executable, "-m", "semantica_daemon.cli"]
    wanted = daemon.counts("default")["done"] + count
    taken = wall_ms([*semantica, *words], count, daemon.env)
    all_done(daemon, "default", wanted)
    return taken


def bare_python(stand: Stand, count: int) -> float:
    return wall_ms(BARE_PYTHON, count)


def wall_ms(argv: list[str], count: int, env: dict[str, str] | None = None) -> float:
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        output_of(argv, env)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1000


def output_of(argv: list[str], env: dict[str, str] | None = None) -> str:
    """Runs a command that must not fail."""
    ended = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/")
    if ended.returncode:
        raise RuntimeError(f"{argv} has failed ({ended.returncode}): {ended.stderr[-2000:].strip()}")
    return ended.stdout


TRUE2 = Taken(
    Figure("true2", "/bin/true until DONE, 2 slots", "/s", Target(0.45, True, "floor")),
    2,
    1_000,
    200,
    trues,
    bare_trues(2),
)
TRUE4 = Taken(
    Figure("true4", "/bin/true until DONE, 4 slots", "/s", Target(0.55, True, "floor")),
    4,
    1_000,
    200,
    trues,
    bare_trues(4),
)
TAKEN = [
    TRUE2,
    TRUE4,
    Taken(
        Figure("log", "log of one noisy job, until DONE", "MB/s", None),
        SLOTS,
        48,
        16,
        log_written,
        file_written,
    ),
    Taken(
        Figure("add", "semantica add -- true, p50", "ms", Target(3.5, False, "floor")),
        SLOTS,
        15,
        5,
        add,
        bare_python,
    ),
    Taken(
        Figure("run", "semantica run -- true, p50", "ms", None),
        SLOTS,
        15,
        5,
        run,
        bare_python,
    ),
]


def true2big(home: Path, stand: Stand, repeats: int, count: int, log: Log) -> Iterator[Result]:
    """As true2 by a daemon that holds 300 MB; the process of the floor stays small."""
    config = f'handler_path = [{json.dumps(str(HERE.parent))}]\n[handlers]\nbig = "benchmarks.big:size"\n'
    samples, floor = [], []
    with own_daemon(home, config) as daemon:
        if daemon.rss_bytes() < 300 * MEGABYTE:
            raise RuntimeError(f"the daemon was to hold 300 MB and holds {daemon.rss_bytes() / MEGABYTE:.0f} MB")
        trues(stand, daemon, max(count // 10, 10))
        for number in range(repeats):
            floor.append(bare_trues(SLOTS)(stand, count))
            samples.append(trues(stand, daemon, count))
            log(f"true2big {number + 1}/{repeats}: {shown(floor[-1], '/s')}  {shown(samples[-1], '/s')}")
    what = "/bin/true until DONE, 2 slots, 300 MB"
    yield Figure("true2big", what, "/s", TRUE2.figure.target).result(samples, floor)


def noisy(home: Path, stand: Stand, repeats: int, count: int, log: Log) -> Iterator[Result]:
    """Beside it: the same daemon while nothing runs."""
    samples, quiet = [], []
    with own_daemon(home) as daemon:
        hold(daemon)
        p99_ms(stand, daemon, max(count // 10, 10))
        for number in range(repeats):
            quiet.append(p99_ms(stand, daemon, count))
            with noise(daemon):
                samples.append(p99_ms(stand, daemon, count))
            log(f"noisy {number + 1}/{repeats}: {shown(quiet[-1], 'ms')}  {shown(samples[-1], 'ms')}")
    yield Figure("noisy", "enqueue p99 beside 2 noisy jobs", "ms", None).result(samples, quiet)


@contextmanager
def own_daemon(home: Path, config: str = "") -> Iterator[Daemon]:
    daemon = Daemon(home, SLOTS, config)
    try:
        yield daemon.start()
    finally:
        daemon.end()


@contextmanager
def noise(daemon: Daemon) -> Iterator[None]:
    """A job in every slot writes as fast as it can: into its log up to the limit, after that its output is dropped."""
    jobs = [daemon.call("job.enqueue", **command("yes"))["job_id"] for _ in range(SLOTS)]
    for job_id in jobs:
        if not daemon.call("job.logs", job_id=job_id, limit=1000, timeout_ms=10_000)["chunk"]:
            raise RuntimeError(f"job {job_id} was to be noisy and has written nothing in 10 s")
    yield
    ended = daemon.call("job.cancel", job_ids=jobs, wait_ms=10_000)
    if sorted(ended["cancelled"]) != sorted(jobs):
        raise RuntimeError(f"the noisy jobs {jobs} did not end: {ended}")


def p99_ms(stand: Stand, daemon: Daemon, count: int) -> float:
    return statistics.quantiles(stand.clients.one_by_one(daemon.socket, HELD, count), n=100)[98] * 1000
