-- Every list is read along an index, whatever it is narrowed by.

-- Of one status, the newest first; a stream that was deleted has none. Only a change of status touches it.
CREATE INDEX stream_status ON stream (tenant, kind, status, created_at, id) WHERE status <> '';

-- Runs a worker may claim stand in a list too, so that those of one account are found by it.
UPDATE stream SET listed_at = due_at WHERE kind = 'run' AND due_at IS NOT NULL;

-- Segments of one tenant and kind in commit order: SQLite ends every index in the row's number.
CREATE INDEX ledger_kind ON ledger (tenant, kind);

-- A correlation that others use too.
DROP INDEX ledger_correlation;
CREATE INDEX ledger_correlation ON ledger (correlation, tenant) WHERE correlation <> '';

-- All effects, those about to be applied too: nothing it holds ever changes, so that settling one leaves it alone.
DROP INDEX effect_created;
CREATE INDEX effect_created ON effect (tenant, created_at, kind, id, version, place);

-- What somebody may take, by status: a worker does not walk past what it cannot take. Scores have no owner and are swept
-- whatever their status, so they are in neither.
CREATE INDEX stream_work ON stream (kind, status, due_at, tenant, id) WHERE due_at IS NOT NULL AND owner <> '';
CREATE INDEX stream_tenant_work ON stream (tenant, kind, status, due_at, id)
WHERE due_at IS NOT NULL AND owner <> '';

-- The status of an intent says who may work on it, if not everybody.
UPDATE stream SET status = status || '.' || json_extract(state, '$.definition.worker')
WHERE kind = 'intent' AND json_extract(state, '$.definition.worker') IN ('builtin', 'outside');
