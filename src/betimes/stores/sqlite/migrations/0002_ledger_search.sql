-- The ledger is searched by key and by instant without being read from one end to the other.

-- Segments of a key, in commit order: SQLite ends every index in the row's number.
CREATE INDEX ledger_key ON ledger (key, tenant) WHERE key IS NOT NULL;

-- The ledger in blocks of about 1,024 numbers with the earliest and the latest instant of each. Instants nearly follow
-- the numbers, but a stream may run ahead of the clock and a clock may be set back: a block says what it may be passed
-- over for, and nothing is taken for granted. The last row stands for what comes after the last block that ended. It
-- may hold any instant.
CREATE TABLE ledger_block (
    last INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    at_min INTEGER NOT NULL,
    at_max INTEGER NOT NULL
) STRICT;

INSERT INTO ledger_block (first, last, at_min, at_max)
SELECT (seq - 1) / 1024 * 1024 + 1, (seq - 1) / 1024 * 1024 + 1024, min(at), max(at)
FROM ledger
WHERE seq <= (SELECT max(seq) FROM ledger) / 1024 * 1024
GROUP BY (seq - 1) / 1024;

INSERT INTO ledger_block (first, last, at_min, at_max)
SELECT ifnull(max(seq), 0) / 1024 * 1024 + 1, 9223372036854775807, -9223372036854775808, 9223372036854775807
FROM ledger;

CREATE TRIGGER ledger_block_end AFTER INSERT ON ledger WHEN NEW.seq % 1024 = 0
BEGIN
    INSERT INTO ledger_block (first, last, at_min, at_max)
    SELECT b.first, NEW.seq, min(l.at), max(l.at)
    FROM ledger_block b
    JOIN ledger l ON l.seq BETWEEN b.first AND NEW.seq
    WHERE b.last = 9223372036854775807
    GROUP BY b.first;
    UPDATE ledger_block SET first = NEW.seq + 1 WHERE last = 9223372036854775807 AND first <= NEW.seq;
END;
