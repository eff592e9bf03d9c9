-- Lists in an order of their own, whatever is due: what to look at, before it can be claimed.

ALTER TABLE betimes.stream ADD COLUMN listed_at bigint;
ALTER TYPE betimes.stream_write ADD ATTRIBUTE listed_at bigint;

-- Of one tenant, and of one owner; streams that stand in no such list are in neither.
CREATE INDEX stream_listed ON betimes.stream (tenant, kind, listed_at, id) WHERE listed_at IS NOT NULL;
CREATE INDEX stream_owner_listed ON betimes.stream (tenant, kind, owner, listed_at, id)
    WHERE listed_at IS NOT NULL AND owner <> '';

-- Intents that were written before stand by their next check, claimed ones by the end of their claim.
UPDATE betimes.stream
SET listed_at = greatest((state::json ->> 'next_check_at')::bigint, (state::json #>> '{claim,3}')::bigint)
WHERE kind = 'intent' AND due_at IS NOT NULL;

-- Move streams from the expected version to the next; one that is expected at 0 need not have a row.
CREATE OR REPLACE FUNCTION betimes.write_streams(p_streams betimes.stream_write[]) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    moved bigint;
    made bigint;
    refused text;
BEGIN
    UPDATE betimes.stream s
    SET version = w.version, schema = w.schema, state = w.state, at = w.at, alarm_at = w.alarm_at, digest = w.digest,
        created_at = coalesce(s.created_at, w.at), status = w.status, owner = w.owner, due_at = w.due_at,
        listed_at = w.listed_at, snooze_until = NULL
    FROM unnest(p_streams) w
    WHERE s.tenant = w.tenant AND s.kind = w.kind AND s.id = w.id AND s.version = w.expected;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved = cardinality(p_streams) THEN
        RETURN moved;
    END IF;

    INSERT INTO betimes.stream
        (tenant, kind, id, version, schema, state, created_at, at, alarm_at, digest, status, owner, due_at,
         listed_at)
    SELECT w.tenant, w.kind, w.id, w.version, w.schema, w.state, w.at, w.at, w.alarm_at, w.digest, w.status, w.owner,
        w.due_at, w.listed_at
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

DROP PROCEDURE betimes.commit_turn;

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
        )::betimes.stream_write]);
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
            )::betimes.key_write], p_now);
        END IF;
    END IF;

    -- As in append: the announcement first, then the number. An expression costs less than a statement; it has no value
    -- for a role that may draw numbers and not look at them.
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
