-- The folders of archived jobs that are still to be deleted: files are deleted after the commit, and again after a crash.

CREATE TABLE workspace_removals (
  job_id TEXT PRIMARY KEY
) WITHOUT ROWID;
