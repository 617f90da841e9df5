-- ADR-010, phase 3: when a job may start.

ALTER TABLE jobs ADD COLUMN schedule_type TEXT CHECK(schedule_type IN ('IMMEDIATE', 'AT', 'AFTER', 'CONDITION'));
ALTER TABLE jobs ADD COLUMN scheduled_at INTEGER;
ALTER TABLE jobs ADD COLUMN schedule_delay_ms INTEGER;
ALTER TABLE jobs ADD COLUMN wait_for_idle INTEGER DEFAULT 0;
ALTER TABLE jobs ADD COLUMN require_charging INTEGER DEFAULT 0;
ALTER TABLE jobs ADD COLUMN wait_for_event TEXT;

CREATE TABLE job_conditions (
  job_id TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (job_id, key),
  FOREIGN KEY (job_id) REFERENCES jobs(id) ON DELETE CASCADE
);

CREATE INDEX idx_job_conditions_lookup ON job_conditions (key, value, job_id);
