-- The common case by itself: one command on one stream, with at most one key. The steps of begin_batch and commit_batch
-- in their order, row by row instead of array by array, which costs the server about two thirds. Whatever is not as
-- usual is left to the functions for batches.

-- Lock a stream if it is free, reserve a key, read. The answer is that of begin_batch, without the reads that are as
-- they are cached. A stream that has no row or is held, and a key that is on record, go the way of a batch: nothing that
-- was done until then differs from what it does first.
CREATE FUNCTION betimes.begin_turn(
    p_tenant text, p_kind text, p_id text, p_cached bigint, p_collection text, p_key text,
    p_reads betimes.asked_stream[], p_now bigint
) RETURNS TABLE (
    part text, place bigint, version bigint, schema integer, state text, at bigint, alarm_at bigint, digest text
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    usual boolean;
BEGIN
    SELECT s.version, s.schema, s.state, s.at, s.alarm_at, s.digest
    INTO version, schema, state, at, alarm_at, digest
    FROM betimes.stream s WHERE s.tenant = p_tenant AND s.kind = p_kind AND s.id = p_id
    FOR UPDATE SKIP LOCKED;
    usual := FOUND;
    IF usual AND p_key IS NOT NULL THEN
        INSERT INTO betimes.key (tenant, collection, key, expires_hour)
        VALUES (p_tenant, p_collection, p_key, betimes.likely_hour(betimes.clock(p_now)))
        ON CONFLICT DO NOTHING;
        usual := FOUND;
    END IF;
    IF NOT usual THEN
        RETURN QUERY
        SELECT * FROM betimes.begin_batch(
            '{}', ARRAY[ROW(p_tenant, p_kind, p_id, p_cached)::betimes.asked_stream], p_reads,
            CASE WHEN p_key IS NULL THEN '{}' ELSE ARRAY[ROW(p_tenant, p_collection, p_key)::betimes.key_id] END,
            '{}', p_now
        );
        RETURN;
    END IF;

    part := 'skip';
    place := 1;
    IF version = p_cached THEN
        schema := NULL;
        state := NULL;
        at := NULL;
        alarm_at := NULL;
        digest := NULL;
    END IF;
    RETURN NEXT;

    part := 'clock';
    place := betimes.clock(NULL);
    version := coalesce(p_now, place);
    schema := NULL;
    state := NULL;
    at := NULL;
    alarm_at := NULL;
    digest := NULL;
    RETURN NEXT;

    RETURN QUERY
    SELECT 'read', a.place, coalesce(s.version, 0), coalesce(s.schema, 0), s.state, coalesce(s.at, 0), s.alarm_at,
        coalesce(s.digest, '')
    FROM unnest(p_reads) WITH ORDINALITY AS a (tenant, kind, id, cached, place)
    LEFT JOIN betimes.stream s ON s.tenant = a.tenant AND s.kind = a.kind AND s.id = a.id
    WHERE coalesce(s.version, 0) <> a.cached;
END
$$;

-- Write a stream, its segment and perhaps its key: the steps of commit_batch for one command.
CREATE PROCEDURE betimes.commit_turn(
    p_tenant text, p_kind text, p_id text, p_expected bigint, p_version bigint, p_schema integer, p_state text,
    p_at bigint, p_alarm_at bigint, p_digest text, p_status text, p_owner text, p_due_at bigint, p_listed_at bigint,
    p_turn text, p_command text, p_events text, p_policy text, p_prev text, p_collection text, p_key text,
    p_verdict text, p_reply text, p_actor text, p_correlation text, p_cause text,
    p_request text, p_expires_at bigint, p_now bigint
) LANGUAGE plpgsql AS $$
DECLARE
    written bigint;
BEGIN
    UPDATE betimes.stream s
    SET version = p_version, schema = p_schema, state = p_state, created_at = coalesce(s.created_at, p_at), at = p_at,
        alarm_at = p_alarm_at, digest = p_digest, status = p_status, owner = p_owner, due_at = p_due_at,
        listed_at = p_listed_at, snooze_until = NULL
    WHERE s.tenant = p_tenant AND s.kind = p_kind AND s.id = p_id AND s.version = p_expected;
    IF NOT FOUND THEN
        written := betimes.write_streams(ARRAY[ROW(
            p_tenant, p_kind, p_id, p_expected, p_version, p_schema, p_state, p_at, p_alarm_at, p_digest, p_status,
            p_owner, p_due_at, p_listed_at
        )::betimes.stream_write], false);
    END IF;

    IF p_expires_at IS NOT NULL THEN
        INSERT INTO betimes.key AS k (tenant, collection, key, request, kind, id, version, expires_at, expires_hour)
        VALUES (p_tenant, p_collection, p_key, p_request, p_kind, p_id, p_version, p_expires_at,
                p_expires_at / 3600000000)
        ON CONFLICT (tenant, collection, key) DO UPDATE
        SET request = excluded.request, kind = excluded.kind, id = excluded.id, version = excluded.version,
            expires_at = excluded.expires_at, expires_hour = excluded.expires_hour
        WHERE k.version = 0;
        IF NOT FOUND THEN
            written := betimes.use_keys(ARRAY[ROW(
                p_tenant, p_collection, p_key, p_request, p_kind, p_id, p_version, p_expires_at
            )::betimes.key_write], false, p_now);
        END IF;
    END IF;

    -- As in append: the announcement first, then the number.
    IF pg_advisory_xact_lock_shared(betimes.announcement(pg_sequence_last_value('betimes.ledger_seq'))) IS NULL THEN
        PERFORM pg_advisory_xact_lock_shared(betimes.announcement(last_value)) FROM betimes.ledger_seq;
    END IF;
    INSERT INTO betimes.ledger
        (tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest, collection, key, verdict,
         reply, actor, correlation, cause)
    VALUES
        (p_tenant, p_kind, p_id, p_version, p_turn, p_at, p_schema, p_command, p_events, p_policy, p_prev, p_digest,
         p_collection, p_key, p_verdict, p_reply, p_actor, p_correlation, p_cause);
END
$$;
