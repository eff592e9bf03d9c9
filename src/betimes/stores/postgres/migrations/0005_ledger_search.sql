-- formerly: e39d905d7045feadad47f1a624161893e3a56b814d70b170d1562e2743d98353
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

INSERT INTO betimes.ledger_block (first, last, at_min, at_max)
SELECT (seq - 1) / 1024 * 1024 + 1, (seq - 1) / 1024 * 1024 + 1024, min(at), max(at)
FROM betimes.ledger
WHERE seq <= (SELECT coalesce(max(seq), 0) / 1024 * 1024 FROM betimes.ledger)
GROUP BY (seq - 1) / 1024;
INSERT INTO betimes.ledger_block (first, last, at_min, at_max)
SELECT coalesce(max(seq), 0) / 1024 * 1024 + 1, 9223372036854775807, -9223372036854775808, 9223372036854775807
FROM betimes.ledger;
