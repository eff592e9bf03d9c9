-- Segments are found by the row number of their stream instead of its name: the unique index is a fifth as large, and
-- the first segments of new streams go to its end instead of anywhere. Blocks are ended by the commit that fills them.
CREATE TABLE ledger_by_row (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    stream_n INTEGER NOT NULL,
    version INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    turn TEXT NOT NULL,
    at INTEGER NOT NULL,
    schema INTEGER NOT NULL,
    command TEXT,
    events TEXT NOT NULL,
    policy TEXT NOT NULL,
    prev TEXT NOT NULL,
    digest TEXT NOT NULL,
    collection TEXT,
    key TEXT,
    verdict TEXT,
    reply TEXT,
    actor TEXT NOT NULL,
    correlation TEXT NOT NULL,
    cause TEXT NOT NULL,
    UNIQUE (stream_n, version)
) STRICT;

-- A segment whose stream was lost is kept all the same, under a number that no row has.
INSERT INTO ledger_by_row
SELECT l.seq, ifnull(s.n, -l.seq), l.version, l.tenant, l.kind, l.id, l.turn, l.at, l.schema, l.command, l.events,
    l.policy, l.prev, l.digest, l.collection, l.key, l.verdict, l.reply, l.actor, l.correlation, l.cause
FROM ledger AS l
LEFT JOIN stream AS s ON s.tenant = l.tenant AND s.kind = l.kind AND s.id = l.id
ORDER BY l.seq;

-- Numbers are never given twice, also not those of segments that are gone.
UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence WHERE name = 'ledger') WHERE name = 'ledger_by_row';

DROP TABLE ledger;
ALTER TABLE ledger_by_row RENAME TO ledger;

CREATE INDEX ledger_correlation ON ledger (correlation, tenant) WHERE correlation <> '';
CREATE INDEX ledger_key ON ledger (key, tenant) WHERE key IS NOT NULL;
CREATE INDEX ledger_kind ON ledger (tenant, kind);
