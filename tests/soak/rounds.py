"""What a round does to a daemon under load. Each returns what the figures count it as."""

import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests import homes
from tests.crash import process_list
from tests.crash.test_kill_loop import WAYS
from tests.harness import Process
from tests.soak.house import House
from tests.soak.power import Acknowledged
from tests.soak.recorder import Recorder

IMAGES = 12


def kill(house: House) -> str:
    """The daemon, its supervisor, or both, in one of the ways of the kill loop."""
    house.random.choice(WAYS)(house.process)
    house.process.start()
    return "kills"


def fail_disk(house: House) -> str:
    words = house.random.choice((["full"], ["sync-wal"], ["sync-wal", "read-after-sync"], ["write-db"]))
    house.faults.switch_on(*words)
    house.let_it_work(2.0)
    house.faults.switch_on()
    return "faults"


def stop_for_a_while(house: House) -> str:
    assert house.process.process is not None
    pids = house.random.choice(([house.process.process.pid], process_list.supervisors(house.home)))
    process_list.kill(pids, signal.SIGSTOP)
    house.let_it_work(2.0)
    process_list.kill(pids, signal.SIGCONT)
    return "faults"


def take_descriptors(house: House) -> str:
    """The daemon, or its supervisor, can open nothing more for a while."""
    assert house.process.process is not None
    pid = house.random.choice([house.process.process.pid, *process_list.supervisors(house.home)[:1]])
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), before[1]))
    house.let_it_work(2.0)
    if Path(f"/proc/{pid}").exists():
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    return "faults"


ROUNDS: list[Callable[[House], str]] = [kill, kill, kill, fail_disk, stop_for_a_while, take_descriptors]


def lose_power(random: Random) -> tuple[int, int]:
    """Images of one recorded daemon; how many, and of how many jobs. The last one is started by a daemon."""
    with homes.migrated_home() as home, tempfile.TemporaryDirectory() as folder:
        recorder, acknowledged = Recorder(Path(folder), home), Acknowledged()
        with Process(home, **recorder.environment).start() as process:
            until = time.monotonic() + 2.5
            while time.monotonic() < until:
                durable = random.random() < 0.2
                job_id = process.call("job.enqueue", job_type="semantica.noop", durable=durable)["job_id"]
                (acknowledged.durable if durable else acknowledged.other)[job_id] = recorder.position()
            process.kill()
        operations = recorder.operations()
        for number in range(IMAGES):
            cut = random.randrange(len(operations) // 10, len(operations) + 1)
            recorder.image(cut, home, None if number == 0 else random)
            acknowledged.check(home, operations[:cut])
        with Process(home).start() as process:
            assert process.stop() == 0
        acknowledged.check(home, operations[:cut])
        return IMAGES, len(acknowledged.durable) + len(acknowledged.other)
