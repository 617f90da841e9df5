"""The `admin` family: health, statistics, configuration and shutdown of the daemon."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from semantica_daemon.wire.types import Params, about


class Health(Struct, frozen=True):
    status: Annotated[
        Literal["ready", "starting", "stopping", "degraded"],
        about("degraded: writes, or the checkpoints of the database, fail at the moment"),
    ]
    version: Annotated[str, about("version of the daemon")]
    protocol: Annotated[int, about("version of this protocol")]
    uptime_ms: Annotated[int, about("time since the start")]
    parts: Annotated[dict[str, Any], about("each part of the daemon: its last pass, or its counts")]


class ConfigParams(Params, frozen=True):
    reload: Annotated[bool, about("read the file again first, and use its settings")] = False


class ConfigFile(Struct, frozen=True):
    """The field `file` of admin.config: how config.toml stands to the settings in force."""

    newer: Annotated[bool, about("the file has changed since it was read")]
    problem: Annotated[str | None, about("why the newer file was refused when it was read again")]
    changed: Annotated[list[str], about("settings that this call has changed, by their dotted names")]
    needs_restart: Annotated[list[str], about("settings that were read and are in force after a restart")]


class QueueStats(Struct, frozen=True):
    """Counts and times of a queue since its first job."""

    queue: Annotated[str, about("name of the queue")]
    queued: Annotated[int, about("jobs that wait for a slot")]
    scheduled: Annotated[int, about("jobs that may not start yet")]
    running: Annotated[int, about("jobs that run")]
    done: Annotated[int, about("jobs that ended DONE")]
    failed: Annotated[int, about("jobs that ended FAILED")]
    cancelled: Annotated[int, about("jobs that ended CANCELLED")]
    superseded: Annotated[int, about("jobs that ended SUPERSEDED")]
    skipped: Annotated[int, about("jobs that ended SKIPPED_TTL or SKIPPED_DEADLINE")]
    avg_wait_ms: Annotated[float | None, about("mean time from QUEUED to the start of a run")]
    avg_run_ms: Annotated[float | None, about("mean time of a run; cancelled and interrupted runs are left out")]


class Stats(Struct, frozen=True):
    queues: Annotated[list[QueueStats], about("each queue")]
    system: Annotated[dict[str, Any], about("bytes of the database, memory, connections, slots, is_idle, pid, ...")]


class ShutdownParams(Params, frozen=True):
    reason: Annotated[Annotated[str, Meta(max_length=1000)], about("shown in the event and the log")] = "admin.shutdown"


class ShutdownAck(Struct, frozen=True):
    stopping: Annotated[bool, about("always true: the daemon stops as on SIGTERM")]
