-- What a job is cannot change once it has run, and the end of a job is final (seed 004, INV-001 and §5.3).

CREATE TRIGGER jobs_spec_is_final
BEFORE UPDATE OF payload, env_vars, job_type, spec ON jobs
WHEN OLD.run_count > 0
BEGIN
  SELECT RAISE(ABORT, 'a job that has run keeps its payload, variables, type and template');
END;
