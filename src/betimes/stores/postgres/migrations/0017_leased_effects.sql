-- Calls that are leased by the commit that makes them: their first attempt, under the fence 1.

ALTER TYPE betimes.effect_write ADD ATTRIBUTE is_leased boolean;

-- Write a batch. Keys come before streams, as they do for whoever reserved them: one that waits for a key has made no
-- stream that others wait for. Streams come before the ledger: numbers are drawn under the streams' locks, in the order
-- of versions.
CREATE OR REPLACE FUNCTION betimes.commit_batch(
    p_streams betimes.stream_write[], p_segments betimes.segment_write[], p_keys betimes.key_write[],
    p_effects betimes.effect_write[], p_applied betimes.effect_id[], p_dead betimes.dead_send[],
    p_settled betimes.settlement[], p_unwritten betimes.stream_id[], p_unused betimes.key_id[], p_now bigint
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    written bigint := 0;
BEGIN
    IF cardinality(p_keys) > 0 THEN
        written := betimes.use_keys(p_keys, p_now);
    END IF;
    IF cardinality(p_streams) > 0 THEN
        written := written + betimes.write_streams(p_streams);
    END IF;
    written := written + betimes.end_effects(p_applied, p_dead, p_settled);
    IF cardinality(p_effects) > 0 THEN
        INSERT INTO betimes.effect
            (tenant, kind, id, version, place, executor, payload, created_at, next_attempt_at, at_most_once,
             attempts_max, lease_s, to_tenant, to_kind, to_id, status, attempts, fence)
        SELECT e.tenant, e.kind, e.id, e.version, e.place, e.executor, e.payload, e.created_at, e.next_attempt_at,
            e.at_most_once, e.attempts_max, e.lease_s, e.to_tenant, e.to_kind, e.to_id,
            CASE WHEN e.is_leased THEN 'leased' ELSE 'pending' END, e.is_leased::integer, e.is_leased::integer
        FROM unnest(p_effects) e;
    END IF;
    IF cardinality(p_unwritten) > 0 THEN
        DELETE FROM betimes.stream s USING unnest(p_unwritten) u
        WHERE s.tenant = u.tenant AND s.kind = u.kind AND s.id = u.id AND s.version = 0;
    END IF;
    IF cardinality(p_unused) > 0 THEN
        DELETE FROM betimes.key k USING unnest(p_unused) u
        WHERE k.tenant = u.tenant AND k.collection = u.collection AND k.key = u.key AND k.version = 0;
    END IF;
    IF cardinality(p_segments) > 0 THEN
        written := written + betimes.append(p_segments);
    END IF;
    RETURN written + cardinality(p_effects);
END
$$;
