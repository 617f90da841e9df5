-- What a job is cannot change once it has run, and the end of a job is final.
--
-- A trigger makes an UPDATE of jobs dearer by a fiftieth of a run, whether it refuses anything or not, so none of these is
-- on a column that the start of a job writes. An end is written once per job, by `finished_at` and `ended`; the CHECKs of
-- jobs tie both to `state`, so there is no way out of a terminal state that changes neither.
-- AFTER and ROLLBACK cost a fifth of BEFORE and ABORT, for which SQLite reads the row twice and opens a savepoint.

CREATE TRIGGER jobs_spec_is_final
BEFORE UPDATE OF payload, env_vars, job_type, spec ON jobs
WHEN OLD.run_count > 0
BEGIN
  SELECT RAISE(ABORT, 'a job that has run keeps its payload, variables, type and template');
END;
CREATE TRIGGER jobs_archived_is_ended
BEFORE UPDATE OF archived_at ON jobs
WHEN NEW.archived_at IS NOT NULL AND OLD.finished_at IS NULL
BEGIN
  SELECT RAISE(ABORT, 'only a job that has ended is archived');
END;
-- The exception: the receipt of a job that is DONE is missing at start.
CREATE TRIGGER jobs_end_is_final
AFTER UPDATE OF finished_at, ended ON jobs
WHEN OLD.ended IS NOT NULL
  AND NOT (OLD.ended = 'DONE' AND NEW.ended IS 'FAILED' AND NEW.finished_at = OLD.finished_at)
BEGIN
  SELECT RAISE(ROLLBACK, 'the end of a job is final');
END;
