-- Queues that queue.delete has removed. Their row stays, because the listing of ended jobs finds the queues here; the
-- first new job of such a queue replaces the row.

ALTER TABLE queue_counts ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;
