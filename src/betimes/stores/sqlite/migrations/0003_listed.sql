-- Lists in an order of their own, whatever is due: what to look at, before it can be claimed.

ALTER TABLE stream ADD COLUMN listed_at INTEGER;

-- Of one tenant, and of one owner; streams that stand in no such list are in neither.
CREATE INDEX stream_listed ON stream (tenant, kind, listed_at, id) WHERE listed_at IS NOT NULL;
CREATE INDEX stream_owner_listed ON stream (tenant, kind, owner, listed_at, id)
WHERE listed_at IS NOT NULL AND owner <> '';

-- Intents that were written before stand by their next check, claimed ones by the end of their claim.
UPDATE stream
SET listed_at = max(json_extract(state, '$.next_check_at'), coalesce(json_extract(state, '$.claim[3]'), 0))
WHERE kind = 'intent' AND due_at IS NOT NULL;
