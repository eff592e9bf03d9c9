-- The ledger is searched by key and by instant without being read from one end to the other.

LOCK TABLE betimes.ledger IN SHARE ROW EXCLUSIVE MODE;

CREATE INDEX ledger_key ON betimes.ledger (key, tenant, seq) WHERE key IS NOT NULL;

-- The ledger in blocks of 1,024 numbers with the earliest and the latest instant of each. Instants nearly follow the
-- numbers, but a stream may run ahead of the clock and a clock may be set back: a block says what it may be passed over
-- for, and nothing is taken for granted. The last row stands for what comes after the last block that ended; it may
-- hold any instant.
CREATE TABLE betimes.ledger_block (
    last bigint PRIMARY KEY,
    first bigint NOT NULL,
    at_min bigint NOT NULL,
    at_max bigint NOT NULL
);

-- Whoever may use the ledger may use its blocks: their commits write them.
DO $$
DECLARE
    role regrole;
BEGIN
    FOR role IN
        SELECT DISTINCT granted.grantee::regrole
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) granted
        WHERE c.oid = 'betimes.ledger'::regclass AND granted.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE ON betimes.ledger_block TO %s', role);
    END LOOP;
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

INSERT INTO betimes.ledger_block (first, last, at_min, at_max)
VALUES (1, 9223372036854775807, -9223372036854775808, 9223372036854775807);
SELECT betimes.end_ledger_blocks(coalesce(max(seq), 0) / 1024 * 1024) FROM betimes.ledger;

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

CREATE TRIGGER ledger_block_written AFTER INSERT ON betimes.ledger
    FOR EACH ROW WHEN (NEW.seq % 1024 = 0) EXECUTE FUNCTION betimes.ledger_block_written();

-- As before; the block where a checkpoint stands may now hold its instant too.
CREATE OR REPLACE FUNCTION betimes.replace_history(p_checkpoint betimes.segment_write, p_now bigint) RETURNS bigint
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
