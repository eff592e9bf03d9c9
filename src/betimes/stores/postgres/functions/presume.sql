-- What a message does first that was decided upon without having asked: lock and compare, and refuse what has moved.

-- Lock and compare what was decided upon without having asked: streams and reads stand at the versions that were cached,
-- nobody holds the streams, and it was sent within the last second, so that one whose sender has given it up does
-- nothing. Keys are taken with the writing: one that is on record refuses it. There are few of each, and a loop over
-- few costs less than a join.
CREATE PROCEDURE betimes.presume(
    p_locks betimes.asked_stream[], p_reads betimes.asked_stream[], p_sent_at bigint
) LANGUAGE plpgsql AS $$
DECLARE
    one betimes.asked_stream;
    stored_version bigint;
BEGIN
    FOREACH one IN ARRAY p_locks LOOP
        PERFORM FROM betimes.stream s
        WHERE s.tenant = one.tenant AND s.kind = one.kind AND s.id = one.id AND s.version = one.cached
        FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'BT001', MESSAGE = 'a stream was presumed otherwise, or is held';
        END IF;
    END LOOP;
    IF betimes.clock(NULL) NOT BETWEEN p_sent_at AND p_sent_at + 1000000 THEN
        RAISE EXCEPTION USING ERRCODE = 'BT001', MESSAGE = 'the time was presumed otherwise';
    END IF;
    FOREACH one IN ARRAY p_reads LOOP
        SELECT s.version INTO stored_version FROM betimes.stream s
        WHERE s.tenant = one.tenant AND s.kind = one.kind AND s.id = one.id;
        IF coalesce(stored_version, 0) <> one.cached THEN
            RAISE EXCEPTION USING ERRCODE = 'BT001', MESSAGE = 'what was read was presumed otherwise';
        END IF;
    END LOOP;
END
$$;

-- Write a batch that was decided upon without having asked, and compare what `presume` compares for a few: streams and
-- reads stand at the versions that were cached, nobody holds the streams, and it was sent within the last second. What
-- time it is. Streams that are written are locked and compared by the writing; `p_locks` are the others. No stream is
-- waited for, so it does not matter in which order they are locked. The time is compared once all of them are: whoever
-- has given the message up finds them locked, or it is refused.
CREATE FUNCTION betimes.commit_presumed(
    p_locks betimes.asked_stream[], p_reads betimes.asked_stream[], p_sent_at bigint,
    p_streams betimes.stream_write[], p_segments betimes.segment_write[], p_keys betimes.key_write[],
    p_effects betimes.effect_write[], p_settled betimes.settlement[], p_now bigint
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    instant bigint;
    held bigint;
BEGIN
    held := betimes.commit_batch(
        p_streams, p_segments, p_keys, p_effects, NULL, NULL, p_settled, NULL, NULL, false, p_now
    );
    IF cardinality(p_locks) > 0 THEN
        PERFORM FROM unnest(p_locks) a
        JOIN betimes.stream s ON s.tenant = a.tenant AND s.kind = a.kind AND s.id = a.id
        WHERE s.version = a.cached
        FOR UPDATE OF s SKIP LOCKED;
        GET DIAGNOSTICS held = ROW_COUNT;
        IF held < cardinality(p_locks) THEN
            RAISE EXCEPTION USING ERRCODE = 'BT001', MESSAGE = 'a stream was presumed otherwise, or is held';
        END IF;
    END IF;
    instant := betimes.clock(NULL);
    IF instant NOT BETWEEN p_sent_at AND p_sent_at + 1000000 THEN
        RAISE EXCEPTION USING ERRCODE = 'BT001', MESSAGE = 'the time was presumed otherwise';
    END IF;
    IF EXISTS (
        SELECT FROM unnest(p_reads) a
        LEFT JOIN betimes.stream s ON s.tenant = a.tenant AND s.kind = a.kind AND s.id = a.id
        WHERE coalesce(s.version, 0) <> a.cached
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'BT001', MESSAGE = 'what was read was presumed otherwise';
    END IF;
    RETURN instant;
END
$$;
