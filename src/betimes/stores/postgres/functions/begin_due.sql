-- Streams that are due, whichever they are.

-- Lock streams that are due, leaving out those that somebody holds: of all tenants, the oldest first, or of some, of each
-- at most its share, the oldest of each first, then the next of each. The first row has only the time. What is due to be
-- claimed or swept is picked kind by kind, each along its index. Kinds of a tenant that are passed over are named as in
-- 'acme/inbox'.
CREATE FUNCTION betimes.begin_due(
    p_index text, p_kinds text[], p_held text[], p_tenants text[], p_shares bigint[],
    p_from bigint, p_until bigint, p_limit bigint, p_now bigint
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
    IF p_index = 'alarm' AND p_tenants IS NULL THEN
        RETURN QUERY
        WITH due AS MATERIALIZED (
            SELECT s.* FROM betimes.stream s
            WHERE s.wake_at BETWEEN earliest AND latest AND s.kind = ANY (p_kinds)
                AND (p_held IS NULL OR (s.tenant || '/' || s.kind) <> ALL (p_held))
            ORDER BY s.wake_at, s.tenant, s.kind, s.id LIMIT p_limit FOR UPDATE SKIP LOCKED
        )
        SELECT instant, d.tenant, d.kind, d.id, d.version, d.schema, d.state, d.at, d.alarm_at, d.digest
        FROM due d ORDER BY d.wake_at, d.tenant, d.kind, d.id;
    ELSIF p_index = 'alarm' THEN
        RETURN QUERY
        WITH due AS MATERIALIZED (
            SELECT d.*, row_number() OVER (PARTITION BY d.tenant ORDER BY d.wake_at, d.kind, d.id) AS nth
            FROM unnest(p_tenants, p_shares) AS t (tenant, share)
            CROSS JOIN LATERAL (
                SELECT s.* FROM betimes.stream s
                WHERE s.tenant = t.tenant AND s.wake_at BETWEEN earliest AND latest AND s.kind = ANY (p_kinds)
                    AND (p_held IS NULL OR (s.tenant || '/' || s.kind) <> ALL (p_held))
                ORDER BY s.wake_at, s.kind, s.id LIMIT t.share FOR UPDATE SKIP LOCKED
            ) d
        )
        SELECT instant, d.tenant, d.kind, d.id, d.version, d.schema, d.state, d.at, d.alarm_at, d.digest
        FROM due d ORDER BY d.nth, d.wake_at, d.tenant, d.kind, d.id LIMIT p_limit;
    ELSIF p_tenants IS NULL THEN
        RETURN QUERY
        WITH due AS MATERIALIZED (
            SELECT s.* FROM unnest(p_kinds) k
            CROSS JOIN LATERAL (
                SELECT * FROM betimes.stream
                WHERE kind = k AND due_at BETWEEN earliest AND latest
                    AND (p_held IS NULL OR (tenant || '/' || kind) <> ALL (p_held))
                ORDER BY due_at, tenant, id LIMIT p_limit FOR UPDATE SKIP LOCKED
            ) s
        )
        SELECT instant, d.tenant, d.kind, d.id, d.version, d.schema, d.state, d.at, d.alarm_at, d.digest
        FROM due d ORDER BY d.due_at, d.tenant, d.kind, d.id LIMIT p_limit;
    ELSE
        RETURN QUERY
        WITH due AS MATERIALIZED (
            SELECT o.*, row_number() OVER (PARTITION BY o.tenant ORDER BY o.due_at, o.kind, o.id) AS nth
            FROM unnest(p_tenants, p_shares) AS t (tenant, share)
            CROSS JOIN LATERAL (
                SELECT d.*
                FROM unnest(p_kinds) k
                CROSS JOIN LATERAL (
                    SELECT s.* FROM betimes.stream s
                    WHERE s.tenant = t.tenant AND s.kind = k AND s.due_at BETWEEN earliest AND latest
                        AND (p_held IS NULL OR (s.tenant || '/' || s.kind) <> ALL (p_held))
                    ORDER BY s.due_at, s.id LIMIT t.share FOR UPDATE SKIP LOCKED
                ) d
                ORDER BY d.due_at, d.kind, d.id LIMIT t.share
            ) o
        )
        SELECT instant, d.tenant, d.kind, d.id, d.version, d.schema, d.state, d.at, d.alarm_at, d.digest
        FROM due d ORDER BY d.nth, d.due_at, d.tenant, d.kind, d.id LIMIT p_limit;
    END IF;
END
$$;
