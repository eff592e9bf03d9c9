-- Every stream is in one index less, or in two: what an update writes to are mostly indexes.

-- Lists of a kind, the newest first, are read status by status; this one is for streams that have none.
DROP INDEX betimes.stream_created;
CREATE INDEX stream_created ON betimes.stream (tenant, kind, created_at, id) WHERE created_at IS NOT NULL AND status = '';

-- Of one owner, those that stand in a list are found by that (stream_owner_listed).
DROP INDEX betimes.stream_owner;
CREATE INDEX stream_owner ON betimes.stream (tenant, kind, owner, created_at, id)
    WHERE owner <> '' AND listed_at IS NULL;
