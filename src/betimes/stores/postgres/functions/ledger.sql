-- The ledger: its numbers and when they can change no more, its blocks by instant, and checkpoints.

-- The advisory lock that announces a commit to readers of the ledger; see settled_seq.
CREATE FUNCTION betimes.announcement(p_seq bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (('betimes.ledger_seq'::regclass::oid::bigint & 32767) << 48) | p_seq
$$;

-- Append segments in the order given. The announcement comes first, with a number below all that are drawn after it. An
-- expression costs less than a statement; it has no value for a role that may draw numbers and not look at them.
CREATE FUNCTION betimes.append(p_segments betimes.segment_write[]) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    written bigint;
BEGIN
    IF pg_advisory_xact_lock_shared(betimes.announcement(pg_sequence_last_value('betimes.ledger_seq'))) IS NULL THEN
        PERFORM pg_advisory_xact_lock_shared(betimes.announcement(last_value)) FROM betimes.ledger_seq;
    END IF;
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

-- End all blocks up to a number below which the ledger can change no more.
CREATE FUNCTION betimes.end_ledger_blocks(p_upto bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO betimes.ledger_block (first, last, at_min, at_max)
    SELECT (seq - 1) / 1024 * 1024 + 1, (seq - 1) / 1024 * 1024 + 1024, min(at), max(at)
    FROM betimes.ledger
    WHERE seq >= (SELECT first FROM betimes.ledger_block WHERE last = 9223372036854775807) AND seq <= p_upto
    GROUP BY (seq - 1) / 1024;
    UPDATE betimes.ledger_block SET first = p_upto + 1 WHERE last = 9223372036854775807;
END
$$;

-- Whoever writes the last number of a block ends the blocks that can change no more: never its own, since it has not
-- committed. One does it at a time, without waiting and at most 64 at once; the next goes on.
CREATE FUNCTION betimes.ledger_block_written() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    open_first bigint;
    upto bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock('betimes.ledger_block'::regclass::oid::integer, 0) THEN
        RETURN NULL;
    END IF;
    upto := betimes.settled_seq() / 1024 * 1024;
    SELECT first INTO open_first FROM betimes.ledger_block WHERE last = 9223372036854775807;
    upto := least(upto, open_first - 1 + 64 * 1024);
    IF upto >= open_first THEN
        PERFORM betimes.end_ledger_blocks(upto);
    END IF;
    RETURN NULL;
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
        UPDATE betimes.ledger_block SET at_min = least(at_min, c.at), at_max = greatest(at_max, c.at)
        WHERE first <= last_seq AND last >= last_seq AND (c.at < at_min OR c.at > at_max);
    END IF;
    RETURN gone;
END
$$;
