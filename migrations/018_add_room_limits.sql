-- Limits of concurrency keys, and rates. keys: JSON, a pattern of keys to its limit. rate: JSON {"count", "per_ms"}.

ALTER TABLE queues ADD COLUMN rate TEXT CHECK (rate IS NULL OR json_valid(rate));
ALTER TABLE queues ADD COLUMN keys TEXT CHECK (keys IS NULL OR json_valid(keys));

-- How many jobs of a queue or key with a rate started at an instant, so that a restart does not let it start too many.
-- concurrency_key is empty for the rate of the queue. A row is deleted when the rate no longer counts it.
CREATE TABLE rates (
  queue TEXT NOT NULL,
  concurrency_key TEXT NOT NULL DEFAULT '',
  started_at INTEGER NOT NULL,
  starts INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (queue, concurrency_key, started_at)
) WITHOUT ROWID;

CREATE INDEX idx_rates_expires ON rates (expires_at);
