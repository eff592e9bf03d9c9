-- formerly: 5765131de5c1e59a8e0c8ff9a9672a6d8fcfc8393f4db499639c3cfa6dd8fc61
-- Lists in an order of their own, whatever is due: what to look at, before it can be claimed.

ALTER TABLE betimes.stream ADD COLUMN listed_at bigint;

-- Of one tenant, and of one owner; streams that stand in no such list are in neither.
CREATE INDEX stream_listed ON betimes.stream (tenant, kind, listed_at, id) WHERE listed_at IS NOT NULL;
CREATE INDEX stream_owner_listed ON betimes.stream (tenant, kind, owner, listed_at, id)
    WHERE listed_at IS NOT NULL AND owner <> '';

-- Intents that were written before stand by their next check, claimed ones by the end of their claim.
UPDATE betimes.stream
SET listed_at = greatest((state::json ->> 'next_check_at')::bigint, (state::json #>> '{claim,3}')::bigint)
WHERE kind = 'intent' AND due_at IS NOT NULL;
