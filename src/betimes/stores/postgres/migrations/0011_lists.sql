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

-- As before; what is due is picked kind by kind, each along its index.
CREATE OR REPLACE FUNCTION betimes.begin_due(
    p_index text, p_kinds text[], p_tenant text, p_from bigint, p_until bigint, p_limit bigint, p_now bigint
) RETURNS TABLE (
    now bigint, tenant text, kind text, id text,
    version bigint, schema integer, state text, at bigint, alarm_at bigint, digest text
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    instant bigint := betimes.clock(p_now);
    earliest bigint := coalesce(p_from, -9223372036854775808);
    latest bigint := least(p_until, instant);
BEGIN
    RETURN QUERY SELECT instant, NULL, NULL, NULL, NULL::bigint, NULL::integer, NULL, NULL::bigint, NULL::bigint, NULL;
    IF p_index = 'alarm' THEN
        RETURN QUERY
        WITH due AS MATERIALIZED (
            SELECT s.* FROM betimes.stream s
            WHERE s.wake_at BETWEEN earliest AND latest AND s.kind = ANY (p_kinds) AND (p_tenant IS NULL OR s.tenant = p_tenant)
            ORDER BY s.wake_at, s.tenant, s.kind, s.id LIMIT p_limit FOR UPDATE SKIP LOCKED
        )
        SELECT instant, d.tenant, d.kind, d.id, d.version, d.schema, d.state, d.at, d.alarm_at, d.digest
        FROM due d ORDER BY d.wake_at, d.tenant, d.kind, d.id;
    ELSIF p_tenant IS NULL THEN
        RETURN QUERY
        WITH due AS MATERIALIZED (
            SELECT s.* FROM unnest(p_kinds) k
            CROSS JOIN LATERAL (
                SELECT * FROM betimes.stream
                WHERE kind = k AND due_at BETWEEN earliest AND latest
                ORDER BY due_at, tenant, id LIMIT p_limit FOR UPDATE SKIP LOCKED
            ) s
        )
        SELECT instant, d.tenant, d.kind, d.id, d.version, d.schema, d.state, d.at, d.alarm_at, d.digest
        FROM due d ORDER BY d.due_at, d.tenant, d.kind, d.id LIMIT p_limit;
    ELSE
        RETURN QUERY
        WITH due AS MATERIALIZED (
            SELECT s.* FROM unnest(p_kinds) k
            CROSS JOIN LATERAL (
                SELECT * FROM betimes.stream
                WHERE tenant = p_tenant AND kind = k AND due_at BETWEEN earliest AND latest
                ORDER BY due_at, id LIMIT p_limit FOR UPDATE SKIP LOCKED
            ) s
        )
        SELECT instant, d.tenant, d.kind, d.id, d.version, d.schema, d.state, d.at, d.alarm_at, d.digest
        FROM due d ORDER BY d.due_at, d.tenant, d.kind, d.id LIMIT p_limit;
    END IF;
END
$$;
