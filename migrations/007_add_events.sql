-- The stream: every change of a job, in one sequence without gaps, written in the same transaction.
-- The writer numbers the events itself; whoever prunes them keeps the newest, so that no number is given twice.
-- An event names the job's event before it and jobs.last_event the newest, so that the events of a job are found
-- without an index that every commit would have to write. queue and user_tag stand here so that a filter needs no join.
-- No foreign key and no CHECK: one statement of the writer makes every row, and retention prunes events by themselves.

CREATE TABLE job_events (
  sequence INTEGER PRIMARY KEY,
  job_number INTEGER,
  job_sequence INTEGER,
  previous INTEGER,
  timestamp_at INTEGER NOT NULL,
  event_type TEXT NOT NULL,
  level TEXT NOT NULL,
  subsystem TEXT GENERATED ALWAYS AS (substr(event_type, 1, instr(event_type, '.') - 1)) VIRTUAL,
  message TEXT NOT NULL,
  correlation_id TEXT,
  payload TEXT NOT NULL,
  queue TEXT,
  user_tag TEXT
);

-- What there is one of: the stream's epoch, the instant of the last synced commit, the last reading of the clock.
CREATE TABLE facts (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO facts (name, value) VALUES ('epoch', lower(hex(randomblob(8))));
