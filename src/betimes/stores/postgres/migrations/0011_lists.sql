-- formerly: 6f33316cb09ca72fefac86d2c63b0b41f5e90092d35eeb22af06790fc1218b85
-- Every list is read along an index, whatever it is narrowed by.

-- Of one status, the newest first; a stream that was deleted has none. Only a change of status touches it.
CREATE INDEX stream_status ON betimes.stream (tenant, kind, status, created_at, id) WHERE status <> '';

-- What is due is taken kind by kind: intents behind a million scores are found without walking past them.
DROP INDEX betimes.stream_due;
CREATE INDEX stream_due ON betimes.stream (kind, due_at, tenant, id) WHERE due_at IS NOT NULL;

-- What somebody may take, by status: a worker does not walk past what it cannot take. Scores have no owner and are swept
-- whatever their status, so they are in neither.
CREATE INDEX stream_work ON betimes.stream (kind, status, due_at, tenant, id) WHERE due_at IS NOT NULL AND owner <> '';
CREATE INDEX stream_tenant_work ON betimes.stream (tenant, kind, status, due_at, id)
    WHERE due_at IS NOT NULL AND owner <> '';

-- Runs a worker may claim stand in a list too, so that those of one account are found by it.
UPDATE betimes.stream SET listed_at = due_at WHERE kind = 'run' AND due_at IS NOT NULL;

-- The status of an intent says who may work on it, if not everybody.
UPDATE betimes.stream SET status = status || '.' || (state::json #>> '{definition,worker}')
WHERE kind = 'intent' AND state::json #>> '{definition,worker}' IN ('builtin', 'outside');

-- Segments of one tenant and kind in commit order. By `seq + 0`, which no other index has: where a tenant wrote most of
-- what there is, the planner would read the ledger from its end, past whatever others wrote since.
CREATE INDEX ledger_kind ON betimes.ledger (tenant, kind, (seq + 0));

-- All effects, those about to be applied too: nothing it holds ever changes.
DROP INDEX betimes.effect_created;
CREATE INDEX effect_created ON betimes.effect (tenant, created_at, kind, id, version, place);
