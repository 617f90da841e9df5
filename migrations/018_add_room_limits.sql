-- Limits of concurrency keys, and rates. keys: JSON, a pattern of keys to its limit. rate: JSON {"count", "per_ms"}.

ALTER TABLE queues ADD COLUMN rate TEXT CHECK (rate IS NULL OR json_valid(rate));
ALTER TABLE queues ADD COLUMN keys TEXT CHECK (keys IS NULL OR json_valid(keys));

-- When a queue or key with a rate may start its next job, so that a restart does not let it start too many.
CREATE TABLE rates (
  queue TEXT NOT NULL,
  concurrency_key TEXT NOT NULL DEFAULT '',
  next_start_at INTEGER NOT NULL,
  PRIMARY KEY (queue, concurrency_key)
) WITHOUT ROWID;
