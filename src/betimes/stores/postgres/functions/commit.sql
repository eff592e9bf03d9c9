-- What a transaction ends with: every version compared, everything written, what was reserved in vain given back.
-- A function called in an assignment costs a fraction of one called by PERFORM, so all answer a number.
-- The three refusals have SQLSTATEs of their own: BT001 a version moved, BT002 a key is on record, BT003 a lease is lost.

-- The attempts at an effect that are kept when one more is added, which ended at an instant.
CREATE FUNCTION betimes.with_attempt(p_history jsonb, p_at bigint, p_ok boolean, p_error text, p_ms bigint)
RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_array_length(p_history) < 20 THEN p_history ELSE p_history - 0 END
        || jsonb_build_array(jsonb_build_array(p_at, p_ok, p_error, p_ms))
$$;

-- Move streams from the expected version to the next; one that is expected at 0 need not have a row. Whoever has not
-- locked them (`p_locked`) has made no rows at version 0: then none is looked for. They are locked by the writing itself,
-- unless somebody else holds them, and found again by their place, which nobody can change meanwhile.
CREATE FUNCTION betimes.write_streams(p_streams betimes.stream_write[], p_locked boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    moved bigint;
    made bigint;
    refused text;
BEGIN
    UPDATE betimes.stream s
    SET version = w.version, schema = w.schema, state = w.state, at = w.at, alarm_at = w.alarm_at, digest = w.digest,
        created_at = coalesce(s.created_at, w.at), status = w.status, owner = w.owner, due_at = w.due_at,
        listed_at = w.listed_at, snooze_until = NULL
    FROM (
        SELECT a.*, held.ctid AS row_place
        FROM unnest(p_streams) a
        JOIN betimes.stream held ON held.tenant = a.tenant AND held.kind = a.kind AND held.id = a.id
        WHERE held.version = a.expected AND (p_locked OR a.expected > 0)
        FOR UPDATE OF held SKIP LOCKED
    ) w
    WHERE s.ctid = w.row_place;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved = cardinality(p_streams) THEN
        RETURN moved;
    END IF;

    -- Of rows that are there, those that were just moved stay as they are and are not counted again.
    INSERT INTO betimes.stream AS s
        (tenant, kind, id, version, schema, state, created_at, at, alarm_at, digest, status, owner, due_at,
         listed_at)
    SELECT w.tenant, w.kind, w.id, w.version, w.schema, w.state, w.at, w.at, w.alarm_at, w.digest, w.status, w.owner,
        w.due_at, w.listed_at
    FROM unnest(p_streams) w
    WHERE w.expected = 0
    ORDER BY w.tenant COLLATE "C", w.kind COLLATE "C", w.id COLLATE "C"
    ON CONFLICT (tenant, kind, id) DO UPDATE
    SET version = excluded.version, schema = excluded.schema, state = excluded.state, created_at = excluded.created_at,
        at = excluded.at, alarm_at = excluded.alarm_at, digest = excluded.digest, status = excluded.status,
        owner = excluded.owner, due_at = excluded.due_at, listed_at = excluded.listed_at
    WHERE s.version = 0;
    GET DIAGNOSTICS made = ROW_COUNT;
    IF moved + made = cardinality(p_streams) THEN
        RETURN moved + made;
    END IF;

    SELECT format('%s/%s/%s ', w.tenant, w.kind, w.id) || CASE
        WHEN s.version = w.expected THEN 'is held'
        ELSE format('is at version %s, not %s', coalesce(s.version, 0), w.expected)
    END
    INTO refused
    FROM unnest(p_streams) w
    LEFT JOIN betimes.stream s ON s.tenant = w.tenant AND s.kind = w.kind AND s.id = w.id
    WHERE s.version IS DISTINCT FROM w.version OR s.digest <> w.digest
    LIMIT 1;
    RAISE EXCEPTION USING ERRCODE = 'BT001', MESSAGE = coalesce(refused, 'a version moved');
END
$$;

-- Put used keys on record, those that are reserved here and those that are free; one that is neither is refused. They
-- are given in the order in which everybody waits for them.
CREATE FUNCTION betimes.use_keys(p_keys betimes.key_write[], p_locked boolean, p_now bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    instant bigint := betimes.clock(p_now);
    reserved bigint := 0;
    used bigint;
    refused text;
BEGIN
    IF p_locked THEN
        UPDATE betimes.key k
        SET request = w.request, kind = w.kind, id = w.id, version = w.version, expires_at = w.expires_at,
            expires_hour = w.expires_at / 3600000000
        FROM unnest(p_keys) w
        WHERE k.tenant = w.tenant AND k.collection = w.collection AND k.key = w.key AND k.version = 0;
        GET DIAGNOSTICS reserved = ROW_COUNT;
        IF reserved = cardinality(p_keys) THEN
            RETURN reserved;
        END IF;
    END IF;

    INSERT INTO betimes.key AS k (tenant, collection, key, request, kind, id, version, expires_at, expires_hour)
    SELECT w.*, w.expires_at / 3600000000 FROM unnest(p_keys) w
    ON CONFLICT (tenant, collection, key) DO UPDATE
    SET request = excluded.request, kind = excluded.kind, id = excluded.id, version = excluded.version,
        expires_at = excluded.expires_at, expires_hour = excluded.expires_hour
    WHERE k.version = 0 OR k.expires_at <= instant;
    GET DIAGNOSTICS used = ROW_COUNT;
    IF reserved + used = cardinality(p_keys) THEN
        RETURN reserved + used;
    END IF;
    SELECT format('the key %s/%s/%s is on record already', k.tenant, k.collection, k.key) INTO refused
    FROM unnest(p_keys) w
    JOIN betimes.key k ON k.tenant = w.tenant AND k.collection = w.collection AND k.key = w.key
    WHERE (k.kind, k.id, k.version) <> (w.kind, w.id, w.version)
    LIMIT 1;
    RAISE EXCEPTION USING ERRCODE = 'BT002', MESSAGE = coalesce(refused, 'a key is on record already');
END
$$;

-- Remove sends that were applied, keep those that could not be, and end attempts; each must still be there as taken.
CREATE FUNCTION betimes.end_effects(
    p_applied betimes.effect_id[], p_dead betimes.dead_send[], p_settled betimes.settlement[]
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    ended bigint := 0;
BEGIN
    IF cardinality(p_applied) > 0 THEN
        DELETE FROM betimes.effect e USING unnest(p_applied) a
        WHERE e.tenant = a.tenant AND e.kind = a.kind AND e.id = a.id AND e.version = a.version AND e.place = a.place
            AND e.executor = 'send' AND e.status = 'pending';
        GET DIAGNOSTICS ended = ROW_COUNT;
        IF ended < cardinality(p_applied) THEN
            RAISE EXCEPTION USING ERRCODE = 'BT003', MESSAGE = 'a command was applied by another process';
        END IF;
    END IF;
    IF cardinality(p_dead) > 0 THEN
        UPDATE betimes.effect e
        SET status = 'dead', next_attempt_at = NULL, finished_at = d.at, last_error = d.error,
            history = betimes.with_attempt(e.history, d.at, false, d.error, NULL)
        FROM unnest(p_dead) d
        WHERE e.tenant = d.tenant AND e.kind = d.kind AND e.id = d.id AND e.version = d.version AND e.place = d.place
            AND e.executor = 'send' AND e.status = 'pending';
        GET DIAGNOSTICS ended = ROW_COUNT;
        IF ended < cardinality(p_dead) THEN
            RAISE EXCEPTION USING ERRCODE = 'BT003', MESSAGE = 'a command was applied by another process';
        END IF;
    END IF;
    IF cardinality(p_settled) > 0 THEN
        UPDATE betimes.effect e
        SET status = s.status, next_attempt_at = s.next_attempt_at, last_error = s.error,
            history = betimes.with_attempt(e.history, s.at, s.status = 'done', s.error, s.duration_ms),
            finished_at = CASE WHEN s.status <> 'pending' THEN s.at END
        FROM unnest(p_settled) s
        WHERE e.tenant = s.tenant AND e.kind = s.kind AND e.id = s.id AND e.version = s.version AND e.place = s.place
            AND e.fence = s.fence AND e.status = 'leased';
        GET DIAGNOSTICS ended = ROW_COUNT;
        IF ended < cardinality(p_settled) THEN
            RAISE EXCEPTION USING ERRCODE = 'BT003', MESSAGE = 'the lease on an effect was lost';
        END IF;
    END IF;
    RETURN ended;
END
$$;

-- Write a batch. Keys come before streams, as they do for whoever reserved them: one that waits for a key has made no
-- stream that others wait for. Streams come before the ledger: numbers are drawn under the streams' locks, in the order
-- of versions. Of what there is nothing, the array is NULL: even an empty one costs both sides more to hand over.
CREATE FUNCTION betimes.commit_batch(
    p_streams betimes.stream_write[], p_segments betimes.segment_write[], p_keys betimes.key_write[],
    p_effects betimes.effect_write[], p_applied betimes.effect_id[], p_dead betimes.dead_send[],
    p_settled betimes.settlement[], p_unwritten betimes.stream_id[], p_unused betimes.key_id[], p_locked boolean,
    p_now bigint
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    written bigint := 0;
BEGIN
    IF cardinality(p_keys) > 0 THEN
        written := betimes.use_keys(p_keys, p_locked, p_now);
    END IF;
    IF cardinality(p_streams) > 0 THEN
        written := written + betimes.write_streams(p_streams, p_locked);
    END IF;
    IF cardinality(p_applied) > 0 OR cardinality(p_dead) > 0 OR cardinality(p_settled) > 0 THEN
        written := written + betimes.end_effects(p_applied, p_dead, p_settled);
    END IF;
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
    RETURN written;
END
$$;
