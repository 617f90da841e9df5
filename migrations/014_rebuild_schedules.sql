-- A schedule fires by cron, at an interval, at each start of the machine (cron_expression '@reboot') or at an event.
-- Rebuilt, since cron_expression was NOT NULL.

ALTER TABLE schedules RENAME TO schedules_by_cron;

CREATE TABLE schedules (
  schedule_id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  template_id TEXT NOT NULL REFERENCES templates(template_id),
  cron_expression TEXT,
  timezone TEXT NOT NULL DEFAULT 'UTC',
  -- An interval is counted from its anchor, and moves with the clock when that is set.
  every_ms INTEGER CHECK (every_ms > 0),
  anchor_at INTEGER,
  on_event TEXT,
  event_value TEXT CHECK (event_value IS NULL OR on_event IS NOT NULL),
  jitter_ms INTEGER NOT NULL DEFAULT 0 CHECK (jitter_ms >= 0),
  enabled INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
  param_overrides TEXT CHECK (param_overrides IS NULL OR json_valid(param_overrides)),
  misfire TEXT NOT NULL DEFAULT 'run_once' CHECK (misfire = 'run_once' OR misfire = 'skip' OR misfire = 'run_all'),
  overlap TEXT NOT NULL DEFAULT 'queue' CHECK (overlap = 'queue' OR overlap = 'skip' OR overlap = 'supersede'),
  last_triggered_at INTEGER,
  -- The watermark fired_to is the latest time that was fired; all times from fired_from to it were. After the clock is
  -- set back by less than three hours they are not fired again.
  fired_from INTEGER,
  fired_to INTEGER,
  next_trigger_at INTEGER CHECK (next_trigger_at IS NULL OR (enabled = 1 AND on_event IS NULL)),
  last_job_id TEXT,
  interrupts INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  CHECK ((cron_expression IS NOT NULL) + (every_ms IS NOT NULL) + (on_event IS NOT NULL) = 1),
  CHECK ((every_ms IS NULL) = (anchor_at IS NULL))
);

INSERT INTO schedules (
  schedule_id, name, template_id, cron_expression, timezone, enabled, param_overrides, misfire, overlap,
  last_triggered_at, fired_from, fired_to, next_trigger_at, last_job_id, interrupts, created_at, updated_at
)
SELECT schedule_id, name, template_id, cron_expression, timezone, enabled, param_overrides, misfire, overlap,
  last_triggered_at, fired_from, fired_to, next_trigger_at, last_job_id, interrupts, created_at, updated_at
FROM schedules_by_cron;

DROP TABLE schedules_by_cron;

CREATE INDEX idx_schedules_next ON schedules (next_trigger_at) WHERE next_trigger_at IS NOT NULL;
CREATE INDEX idx_schedules_template ON schedules (template_id);
CREATE INDEX idx_schedules_event ON schedules (on_event) WHERE on_event IS NOT NULL AND enabled = 1;
