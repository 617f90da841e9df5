"""Handles a wall clock that was set: delays keep their length, and schedules compute their next time again.

Times of day (AT, deadline, cron) stay as they are. The offset of the wall clock from the time since boot is stored in
the transaction that moves the delays, so that each step is handled once, also when it happened while no daemon ran.
"""

import msgspec
from msgspec import Struct

from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes import fire

NOTICED_MS = 1000  # smaller corrections are no step
KNOWN = "SELECT value FROM facts WHERE name = 'clock'"
KEEP_REBOOT = f"INSERT OR IGNORE INTO facts (name, value) VALUES ('{fire.REBOOTED}', '')"
KEEP = "INSERT OR REPLACE INTO facts (name, value) VALUES ('clock', :value)"
SHIFT = {
    "delays": """
UPDATE jobs INDEXED BY idx_jobs_scheduled
SET scheduled_at = scheduled_at + :step
WHERE state = 'SCHEDULED' AND is_delay = 1
""",
    "debounces": """
UPDATE jobs INDEXED BY idx_jobs_scheduled
SET postponed_since = postponed_since + :step
WHERE state = 'SCHEDULED' AND postponed_since IS NOT NULL
""",
    "debounces of queued jobs": """
UPDATE jobs INDEXED BY idx_jobs_pop
SET postponed_since = postponed_since + :step
WHERE state = 'QUEUED' AND postponed_since IS NOT NULL
""",
    "ttls": """
UPDATE jobs INDEXED BY idx_jobs_expires
SET expires_at = expires_at + :step
WHERE state = 'QUEUED' AND expires_at IS NOT NULL
""",
    "leases": """
UPDATE leases
SET expires_at = min(expires_at + :step, coalesce(deadline, 9e18)), ends_at = ends_at + :step, stop_at = stop_at + :step
""",
    "workers": "UPDATE workers SET last_heartbeat = last_heartbeat + :step WHERE left_at IS NULL",
    "pauses": "UPDATE queues SET resume_at = resume_at + :step WHERE resume_at IS NOT NULL",
    "reservations": "UPDATE direct_reservations SET expires_at = expires_at + :step WHERE status = 'ACTIVE'",
    "intervals": """
UPDATE schedules
SET anchor_at = anchor_at + :step, next_trigger_at = next_trigger_at + :step, fired_from = fired_from + :step,
    fired_to = fired_to + :step
WHERE every_ms IS NOT NULL
""",
    "keys": "UPDATE idempotency SET expires_at = expires_at + :step",
}


class Reading(Struct, frozen=True):
    """The wall clock minus the time since boot, in ms, and the boot it belongs to."""

    boot_id: str
    offset_ms: int


def set_clock(tx: Tx, reading: Reading) -> int:
    """Returns the step since the last reading; 0 after a reboot, where it cannot be known."""
    row = tx.execute(KNOWN).fetchone()
    known = msgspec.json.decode(row[0], type=Reading) if row else reading
    step = reading.offset_ms - known.offset_ms if known.boot_id == reading.boot_id else 0
    if abs(step) >= NOTICED_MS:
        moved = {what: tx.execute(sql, {"step": step}).rowcount for what, sql in SHIFT.items()}
        tx.reservations.load(tx.connection)
        moved["rates"] = tx.counts.rates.shift(tx.connection, step)
        tx.counts.load_rules(tx.connection)  # parked sources look at their rates again
        moved["debounces"] += moved.pop("debounces of queued jobs")
        message = f"the clock was set {'forward' if step > 0 else 'back'} by {abs(step)} ms"
        tx.announce("daemon.clock_stepped", message, {"step_ms": step, "moved": moved}, None, "warn")
    if row is None or step or known.boot_id != reading.boot_id:
        tx.execute(KEEP, {"value": msgspec.json.encode(reading).decode()})
    if known.boot_id != reading.boot_id:
        tx.execute(KEEP_REBOOT)  # `fire_at_reboot` runs when the runs before the reboot have ended
    fire.reschedule(tx)
    tx.wake_at(tx.now)
    return step
