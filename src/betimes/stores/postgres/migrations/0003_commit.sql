-- What a transaction ends with: every version compared, everything written, what was reserved in vain given back.
-- A function called in an assignment costs a fraction of one called by PERFORM, so all answer how much they wrote.
-- The three refusals have SQLSTATEs of their own: BT001 a version moved, BT002 a key is on record, BT003 a lease is lost.

CREATE TYPE betimes.stream_write AS (
    tenant text, kind text, id text, expected bigint, version bigint, schema integer, state text, at bigint,
    alarm_at bigint, digest text, status text, owner text, due_at bigint
);
CREATE TYPE betimes.segment_write AS (
    tenant text, kind text, id text, version bigint, turn text, at bigint, schema integer, command text, events text,
    policy text, prev text, digest text, collection text, key text, verdict text, reply text,
    actor text, correlation text, cause text
);
CREATE TYPE betimes.key_write AS (
    tenant text, collection text, key text, request text, kind text, id text, version bigint, expires_at bigint
);
CREATE TYPE betimes.effect_write AS (
    tenant text, kind text, id text, version bigint, place integer, executor text, payload text, created_at bigint,
    next_attempt_at bigint, at_most_once boolean, attempts_max integer, lease_s integer,
    to_tenant text, to_kind text, to_id text
);
CREATE TYPE betimes.dead_send AS (
    tenant text, kind text, id text, version bigint, place integer, at bigint, error text
);
CREATE TYPE betimes.settlement AS (
    tenant text, kind text, id text, version bigint, place integer, fence bigint, status text, at bigint,
    next_attempt_at bigint, error text, duration_ms bigint
);

-- The attempts at an effect that are kept when one more is added, which ended at an instant.
CREATE FUNCTION betimes.with_attempt(p_history jsonb, p_at bigint, p_ok boolean, p_error text, p_ms bigint)
RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_array_length(p_history) < 20 THEN p_history ELSE p_history - 0 END
        || jsonb_build_array(jsonb_build_array(p_at, p_ok, p_error, p_ms))
$$;

-- Move streams from the expected version to the next; one that is expected at 0 need not have a row.
CREATE FUNCTION betimes.write_streams(p_streams betimes.stream_write[]) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    moved bigint;
    made bigint;
    refused text;
BEGIN
    UPDATE betimes.stream s
    SET version = w.version, schema = w.schema, state = w.state, at = w.at, alarm_at = w.alarm_at, digest = w.digest,
        created_at = coalesce(s.created_at, w.at), status = w.status, owner = w.owner, due_at = w.due_at, snooze_until = NULL
    FROM unnest(p_streams) w
    WHERE s.tenant = w.tenant AND s.kind = w.kind AND s.id = w.id AND s.version = w.expected;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved = cardinality(p_streams) THEN
        RETURN moved;
    END IF;

    INSERT INTO betimes.stream
        (tenant, kind, id, version, schema, state, created_at, at, alarm_at, digest, status, owner, due_at)
    SELECT w.tenant, w.kind, w.id, w.version, w.schema, w.state, w.at, w.at, w.alarm_at, w.digest, w.status, w.owner,
        w.due_at
    FROM unnest(p_streams) w
    WHERE w.expected = 0 AND NOT EXISTS (
        SELECT FROM betimes.stream s WHERE s.tenant = w.tenant AND s.kind = w.kind AND s.id = w.id
    )
    ORDER BY w.tenant COLLATE "C", w.kind COLLATE "C", w.id COLLATE "C"
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;
    IF moved + made = cardinality(p_streams) THEN
        RETURN moved + made;
    END IF;

    SELECT format('%s/%s/%s is at version %s, not %s', w.tenant, w.kind, w.id, coalesce(s.version, 0), w.expected)
    INTO refused
    FROM unnest(p_streams) w
    LEFT JOIN betimes.stream s ON s.tenant = w.tenant AND s.kind = w.kind AND s.id = w.id
    WHERE s.version IS DISTINCT FROM w.version OR s.digest <> w.digest
    LIMIT 1;
    RAISE EXCEPTION USING ERRCODE = 'BT001', MESSAGE = coalesce(refused, 'a version moved');
END
$$;

-- The advisory lock that announces a commit to readers of the ledger; see settled_seq.
CREATE FUNCTION betimes.announcement(p_seq bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (('betimes.ledger_seq'::regclass::oid::bigint & 32767) << 48) | p_seq
$$;

-- Append segments in the order given. The announcement comes first, with a number below all that are drawn after it.
CREATE FUNCTION betimes.append(p_segments betimes.segment_write[]) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    written bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(betimes.announcement(last_value)) FROM betimes.ledger_seq;
    INSERT INTO betimes.ledger
        (tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest, collection, key, verdict,
         reply, actor, correlation, cause)
    SELECT * FROM unnest(p_segments);
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END
$$;

-- The number up to which the ledger can change no more: all that was drawn, but nothing a commit under way may have
-- drawn. Whoever reads must take the snapshot to read with after this has answered.
CREATE FUNCTION betimes.settled_seq() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    drawn bigint;
    announced bigint;
BEGIN
    SELECT last_value INTO drawn FROM betimes.ledger_seq;
    SELECT min(((classid::bigint << 32) | objid::bigint) & ((1::bigint << 48) - 1)) INTO announced
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid::bigint >> 16 = betimes.announcement(0) >> 48;
    RETURN least(drawn, announced);
END
$$;

-- Put used keys on record; one that is neither reserved here nor free is refused.
CREATE FUNCTION betimes.use_keys(p_keys betimes.key_write[], p_now bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    instant bigint := betimes.clock(p_now);
    reserved bigint;
    used bigint;
    refused text;
BEGIN
    UPDATE betimes.key k
    SET request = w.request, kind = w.kind, id = w.id, version = w.version, expires_at = w.expires_at,
        expires_hour = w.expires_at / 3600000000
    FROM unnest(p_keys) w
    WHERE k.tenant = w.tenant AND k.collection = w.collection AND k.key = w.key AND k.version = 0;
    GET DIAGNOSTICS reserved = ROW_COUNT;
    IF reserved = cardinality(p_keys) THEN
        RETURN reserved;
    END IF;

    INSERT INTO betimes.key AS k (tenant, collection, key, request, kind, id, version, expires_at, expires_hour)
    SELECT w.*, w.expires_at / 3600000000 FROM unnest(p_keys) w
    WHERE NOT EXISTS (
        SELECT FROM betimes.key k
        WHERE k.tenant = w.tenant AND k.collection = w.collection AND k.key = w.key
            AND k.kind = w.kind AND k.id = w.id AND k.version = w.version AND k.expires_at = w.expires_at
    )
    ORDER BY w.tenant COLLATE "C", w.collection COLLATE "C", w.key COLLATE "C"
    ON CONFLICT (tenant, collection, key) DO UPDATE
    SET request = excluded.request, kind = excluded.kind, id = excluded.id, version = excluded.version,
        expires_at = excluded.expires_at, expires_hour = excluded.expires_hour
    WHERE k.expires_at <= instant;
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
    ended bigint;
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
    RETURN cardinality(p_applied) + cardinality(p_dead) + cardinality(p_settled);
END
$$;

-- Write a batch. Keys come before streams, as they do for whoever reserved them: one that waits for a key has made no
-- stream that others wait for. Streams come before the ledger: numbers are drawn under the streams' locks, in the order
-- of versions.
CREATE FUNCTION betimes.commit_batch(
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
             attempts_max, lease_s, to_tenant, to_kind, to_id)
        SELECT * FROM unnest(p_effects);
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

-- Put a checkpoint in place of a stream's segments up to its version, unless a live key leads to one of them.
CREATE FUNCTION betimes.replace_history(p_checkpoint betimes.segment_write, p_now bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    c betimes.segment_write := p_checkpoint;
    gone bigint;
    last_seq bigint;
BEGIN
    PERFORM FROM betimes.stream s WHERE s.tenant = c.tenant AND s.kind = c.kind AND s.id = c.id FOR UPDATE;
    IF EXISTS (
        SELECT FROM betimes.ledger l
        JOIN betimes.key k ON k.tenant = l.tenant AND k.collection = l.collection AND k.key = l.key
        WHERE l.tenant = c.tenant AND l.kind = c.kind AND l.id = c.id AND l.version <= c.version
            AND k.kind = l.kind AND k.id = l.id AND k.version = l.version AND k.expires_at > betimes.clock(p_now)
    ) THEN
        RETURN 0;
    END IF;
    WITH removed AS (
        DELETE FROM betimes.ledger l
        WHERE l.tenant = c.tenant AND l.kind = c.kind AND l.id = c.id AND l.version <= c.version
        RETURNING l.seq
    )
    SELECT count(*), max(seq) INTO gone, last_seq FROM removed;
    IF gone > 0 THEN
        INSERT INTO betimes.ledger
            (seq, tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest, collection, key,
             verdict, reply, actor, correlation, cause)
        SELECT last_seq, (c).*;
    END IF;
    RETURN gone;
END
$$;
