-- Lock streams of some tenants that are due, of each at most its share: the oldest of each first, then the next of each.
CREATE OR REPLACE FUNCTION betimes.begin_due_in_shares(
    p_index text, p_kinds text[], p_tenants text[], p_shares bigint[], p_until bigint, p_limit bigint, p_now bigint
) RETURNS TABLE (
    now bigint, tenant text, kind text, id text,
    version bigint, schema integer, state text, at bigint, alarm_at bigint, digest text
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    instant bigint := betimes.clock(p_now);
    latest bigint := least(p_until, instant);
BEGIN
    RETURN QUERY SELECT instant, NULL, NULL, NULL, NULL::bigint, NULL::integer, NULL, NULL::bigint, NULL::bigint, NULL;
    IF p_index = 'alarm' THEN
        RETURN QUERY
        WITH due AS MATERIALIZED (
            SELECT d.*, row_number() OVER (PARTITION BY d.tenant ORDER BY d.wake_at) AS nth
            FROM unnest(p_tenants, p_shares) AS t (tenant, share)
            CROSS JOIN LATERAL (
                SELECT s.* FROM betimes.stream s
                WHERE s.tenant = t.tenant AND s.wake_at <= latest AND s.kind = ANY (p_kinds)
                ORDER BY s.wake_at LIMIT t.share FOR UPDATE SKIP LOCKED
            ) d
        )
        SELECT instant, d.tenant, d.kind, d.id, d.version, d.schema, d.state, d.at, d.alarm_at, d.digest
        FROM due d ORDER BY d.nth, d.wake_at, d.tenant, d.kind, d.id LIMIT p_limit;
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
                    WHERE s.tenant = t.tenant AND s.kind = k AND s.due_at <= latest
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
