-- Templates, and the cron schedules that make jobs of them. A job names both for good, also when they are gone.

CREATE TABLE templates (
  template_id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  spec TEXT NOT NULL CHECK (json_valid(spec)),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);

CREATE TABLE schedules (
  schedule_id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  template_id TEXT NOT NULL REFERENCES templates(template_id),
  cron_expression TEXT NOT NULL,
  timezone TEXT NOT NULL DEFAULT 'UTC',
  enabled INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
  param_overrides TEXT CHECK (param_overrides IS NULL OR json_valid(param_overrides)),
  misfire TEXT NOT NULL DEFAULT 'run_once' CHECK (misfire = 'run_once' OR misfire = 'skip' OR misfire = 'run_all'),
  overlap TEXT NOT NULL DEFAULT 'queue' CHECK (overlap = 'queue' OR overlap = 'skip' OR overlap = 'supersede'),
  last_triggered_at INTEGER,
  -- The watermark fired_to is the latest time that was fired; all times from fired_from to it were. After the clock is
  -- set back by less than three hours they are not fired again.
  fired_from INTEGER,
  fired_to INTEGER,
  next_trigger_at INTEGER CHECK (next_trigger_at IS NULL OR enabled = 1),
  last_job_id TEXT,
  interrupts INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);

CREATE INDEX idx_schedules_next ON schedules (next_trigger_at) WHERE next_trigger_at IS NOT NULL;
CREATE INDEX idx_schedules_template ON schedules (template_id);
