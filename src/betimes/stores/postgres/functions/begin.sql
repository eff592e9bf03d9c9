-- What a transaction begins with: rows created, locked and read, keys reserved, sends taken, the clock.
-- Every function is volatile: under READ COMMITTED each of its statements sees what was committed before it began.
-- What is waited for is waited for in the order it is given in, which the caller has sorted.

-- The given instant, or what time it is. In double precision, which is exact to the microsecond until the year 2255 and
-- much cheaper than numeric.
CREATE FUNCTION betimes.clock(p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now, (date_part('epoch', clock_timestamp()) * 1000000)::bigint)
$$;

-- Create rows at version 0 where that does not mean waiting, and answer how many; one that somebody else is creating is
-- left out. An insert waits for an uncommitted one of the same name, so it is tried with next to no patience: all at
-- once, and if that fails, one by one. Nobody can deadlock with a wait this short, whatever they hold.
CREATE FUNCTION betimes.create_free(p_missing betimes.asked_stream[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET lock_timeout = '1ms' AS $$
DECLARE
    one betimes.asked_stream;
    made bigint;
BEGIN
    BEGIN
        INSERT INTO betimes.stream (tenant, kind, id) SELECT tenant, kind, id FROM unnest(p_missing)
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS made = ROW_COUNT;
        RETURN made;
    EXCEPTION WHEN lock_not_available THEN
        made := 0;
    END;
    FOREACH one IN ARRAY p_missing LOOP
        BEGIN
            INSERT INTO betimes.stream (tenant, kind, id) VALUES (one.tenant, one.kind, one.id) ON CONFLICT DO NOTHING;
            made := made + FOUND::integer;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END LOOP;
    RETURN made;
END
$$;

-- The hour in which a key reserved now will expire, if it is kept for a week; only ever a guess.
CREATE FUNCTION betimes.likely_hour(p_now bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT (p_now / 3600000000 + 168)::integer
$$;

-- Reserve keys, waiting for those that others have reserved; whether any was used before. One that has expired is
-- locked and counts as free. Afterwards every key has a row this transaction can see: its own reservation, an expired
-- key it has locked, or a live one.
CREATE FUNCTION betimes.reserve(p_keys betimes.key_id[], p_now bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    made bigint;
BEGIN
    LOOP
        INSERT INTO betimes.key (tenant, collection, key, expires_hour)
        SELECT tenant, collection, key, betimes.likely_hour(p_now)
        FROM unnest(p_keys) WITH ORDINALITY AS a (tenant, collection, key, place) ORDER BY place
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS made = ROW_COUNT;
        IF made = cardinality(p_keys) THEN
            RETURN false;
        END IF;

        PERFORM FROM unnest(p_keys) WITH ORDINALITY AS a (tenant, collection, key, place)
        JOIN betimes.key k ON k.tenant = a.tenant AND k.collection = a.collection AND k.key = a.key
        WHERE k.expires_at <= p_now
        ORDER BY a.place
        FOR UPDATE OF k;

        -- A row that stood in the way may be gone by now: then it is tried again.
        IF NOT EXISTS (
            SELECT FROM unnest(p_keys) a WHERE NOT EXISTS (
                SELECT FROM betimes.key k
                WHERE k.tenant = a.tenant AND k.collection = a.collection AND k.key = a.key
            )
        ) THEN
            RETURN true;
        END IF;
    END LOOP;
END
$$;

-- Lock, reserve and read. Each row of the answer says which part it belongs to and its place in what was asked:
-- `wait`, `skip` and `read` are streams (without columns when the cached version is the stored one), `seen` is a used
-- key with its request and segment as JSON, `send` is a send that was taken, `clock` has the time as its version and
-- the server's own time as its place.
CREATE FUNCTION betimes.begin_batch(
    p_waits betimes.asked_stream[], p_skips betimes.asked_stream[], p_reads betimes.asked_stream[],
    p_keys betimes.key_id[], p_sends betimes.effect_id[], p_now bigint
) RETURNS TABLE (
    part text, place bigint, version bigint, schema integer, state text, at bigint, alarm_at bigint, digest text
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    missing betimes.asked_stream[];
    places bigint[];
    held bigint;
    instant bigint;
BEGIN
    IF cardinality(p_waits) > 0 THEN
        INSERT INTO betimes.stream (tenant, kind, id)
        SELECT a.tenant, a.kind, a.id
        FROM unnest(p_waits) WITH ORDINALITY AS a (tenant, kind, id, cached, place)
        WHERE NOT EXISTS (
            SELECT FROM betimes.stream s WHERE s.tenant = a.tenant AND s.kind = a.kind AND s.id = a.id
        )
        ORDER BY a.place
        ON CONFLICT DO NOTHING;
        RETURN QUERY
        SELECT 'wait', a.place, s.version,
            CASE WHEN s.version <> a.cached THEN s.schema END, CASE WHEN s.version <> a.cached THEN s.state END,
            CASE WHEN s.version <> a.cached THEN s.at END, CASE WHEN s.version <> a.cached THEN s.alarm_at END,
            CASE WHEN s.version <> a.cached THEN s.digest END
        FROM unnest(p_waits) WITH ORDINALITY AS a (tenant, kind, id, cached, place)
        JOIN betimes.stream s ON s.tenant = a.tenant AND s.kind = a.kind AND s.id = a.id
        ORDER BY a.place
        FOR UPDATE OF s;
    END IF;

    IF cardinality(p_skips) > 0 THEN
        RETURN QUERY
        SELECT 'skip', a.place, s.version,
            CASE WHEN s.version <> a.cached THEN s.schema END, CASE WHEN s.version <> a.cached THEN s.state END,
            CASE WHEN s.version <> a.cached THEN s.at END, CASE WHEN s.version <> a.cached THEN s.alarm_at END,
            CASE WHEN s.version <> a.cached THEN s.digest END
        FROM unnest(p_skips) WITH ORDINALITY AS a (tenant, kind, id, cached, place)
        JOIN betimes.stream s ON s.tenant = a.tenant AND s.kind = a.kind AND s.id = a.id
        FOR UPDATE OF s SKIP LOCKED;
        GET DIAGNOSTICS held = ROW_COUNT;
        IF held < cardinality(p_skips) THEN
            SELECT array_agg((a.tenant, a.kind, a.id, a.cached)::betimes.asked_stream), array_agg(a.place)
            INTO missing, places
            FROM unnest(p_skips) WITH ORDINALITY AS a (tenant, kind, id, cached, place)
            WHERE NOT EXISTS (
                SELECT FROM betimes.stream s WHERE s.tenant = a.tenant AND s.kind = a.kind AND s.id = a.id
            );
            IF missing IS NOT NULL THEN
                held := betimes.create_free(missing);
                -- A row at version 0 can be seen only by whoever has made it.
                RETURN QUERY
                SELECT 'skip', a.place, 0::bigint, CASE WHEN a.cached <> 0 THEN 0 END, NULL, 0::bigint, NULL::bigint, ''
                FROM unnest(missing, places) AS a (tenant, kind, id, cached, place)
                WHERE held = cardinality(missing) OR EXISTS (
                    SELECT FROM betimes.stream s
                    WHERE s.tenant = a.tenant AND s.kind = a.kind AND s.id = a.id AND s.version = 0
                );
            END IF;
        END IF;
    END IF;

    instant := betimes.clock(p_now);
    IF cardinality(p_keys) > 0 AND betimes.reserve(p_keys, instant) THEN
        RETURN QUERY
        SELECT 'seen', a.place, k.version, NULL::integer, json_build_array(
            k.request, l.seq, l.tenant, l.kind, l.id, l.version, l.turn, l.at, l.schema, l.command, l.events, l.policy,
            l.prev, l.digest, l.collection, l.key, l.verdict, l.reply, l.actor, l.correlation, l.cause
        )::text, NULL::bigint, NULL::bigint, NULL
        FROM unnest(p_keys) WITH ORDINALITY AS a (tenant, collection, key, place)
        JOIN betimes.key k ON k.tenant = a.tenant AND k.collection = a.collection AND k.key = a.key
        JOIN betimes.ledger l ON l.tenant = k.tenant AND l.kind = k.kind AND l.id = k.id AND l.version = k.version
        WHERE k.expires_at > instant;
    END IF;

    IF cardinality(p_sends) > 0 THEN
        RETURN QUERY
        WITH held AS MATERIALIZED (
            SELECT a.place AS asked, e.tenant, e.kind, e.id, e.version, e.place
            FROM unnest(p_sends) WITH ORDINALITY AS a (tenant, kind, id, version, number, place)
            JOIN betimes.effect e ON e.tenant = a.tenant AND e.kind = a.kind AND e.id = a.id
                AND e.version = a.version AND e.place = a.number
            WHERE e.executor = 'send' AND e.status = 'pending'
            FOR UPDATE OF e SKIP LOCKED
        )
        SELECT 'send', h.asked, NULL::bigint, NULL::integer, NULL, NULL::bigint, NULL::bigint, NULL
        FROM held h
        WHERE NOT EXISTS (
            SELECT FROM betimes.effect o
            WHERE o.executor = 'send' AND o.status = 'pending'
                AND o.tenant = h.tenant AND o.kind = h.kind AND o.id = h.id
                AND (o.version, o.place) < (h.version, h.place)
                AND NOT EXISTS (
                    SELECT FROM held x
                    WHERE x.tenant = o.tenant AND x.kind = o.kind AND x.id = o.id
                        AND x.version = o.version AND x.place = o.place
                )
        );
    END IF;

    part := 'clock';
    place := betimes.clock(NULL);
    version := coalesce(p_now, place);
    RETURN NEXT;

    IF cardinality(p_reads) > 0 THEN
        RETURN QUERY
        SELECT 'read', a.place, coalesce(s.version, 0), m.schema, m.state, m.at, m.alarm_at, m.digest
        FROM unnest(p_reads) WITH ORDINALITY AS a (tenant, kind, id, cached, place)
        LEFT JOIN betimes.stream s ON s.tenant = a.tenant AND s.kind = a.kind AND s.id = a.id
        LEFT JOIN LATERAL (
            SELECT coalesce(s.schema, 0) AS schema, s.state, coalesce(s.at, 0) AS at, s.alarm_at,
                coalesce(s.digest, '') AS digest
        ) m ON coalesce(s.version, 0) <> a.cached;
    END IF;
END
$$;
