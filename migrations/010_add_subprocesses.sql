-- Jobs that run a command: what becomes of processes that outlive its main one. (pid, log_path and env_vars are
-- ADR-010's; job_runs has had room for the identity of a process since 005.)

ALTER TABLE jobs ADD COLUMN leftovers TEXT NOT NULL DEFAULT 'end' CHECK (leftovers IN ('end', 'keep'));
