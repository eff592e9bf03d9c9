-- segment_columns: A segment as it is stored.
json_array(
    l.seq, l.tenant, l.kind, l.id, l.version, l.turn, l.at, l.schema, l.command, l.events, l.policy, l.prev, l.digest,
    l.collection, l.key, l.verdict, l.reply, l.actor, l.correlation, l.cause
);

-- append_segments: New segments, numbered in the order they are given.
INSERT OR ROLLBACK INTO ledger (
    stream_n, seq, tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest,
    collection, key, verdict, reply, actor, correlation, cause
)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- append_alike_segments: New segments that share most columns, numbered in the order they are given.
INSERT OR ROLLBACK INTO ledger (
    tenant, kind, at, schema, command, policy, reply, actor, correlation, cause,
    stream_n, id, version, turn, events, prev, digest
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, column1, column2, column3, column4, column5, column6, column7
FROM (VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?));

-- end_blocks: Blocks of the ledger that are full up to a number, each with its earliest and its latest instant.
INSERT INTO ledger_block (first, last, at_min, at_max)
SELECT (l.seq - 1) / 1024 * 1024 + 1, (l.seq - 1) / 1024 * 1024 + 1024, min(l.at), max(l.at)
FROM ledger_block AS b
JOIN ledger AS l ON l.seq BETWEEN b.first AND :last
WHERE b.last = 9223372036854775807
GROUP BY (l.seq - 1) / 1024;

-- open_block: The last block begins behind them.
UPDATE ledger_block SET first = :last + 1 WHERE last = 9223372036854775807 AND first <= :last;

-- turn_at: The turn that wrote one version.
SELECT turn FROM ledger WHERE stream_n = (@row_number) AND version = :version;

-- history: A stream's segments after a version.
SELECT json_group_array(@segment_columns) FROM (
    SELECT * FROM ledger
    WHERE stream_n = (@row_number) AND version > :after_version
    ORDER BY version LIMIT :limit
) AS l;

-- ledger: A page of segments in commit order; only a stream, a key or a correlation is worth leaving that order for.
SELECT json_group_array(@segment_columns) FROM (
    SELECT * FROM ledger
    INDEXED BY sqlite_autoindex_ledger_1 --? one_stream
    WHERE TRUE
    AND seq > :after --? forwards
    AND seq < :after --? backwards
    AND stream_n = (@row_number) --? one_stream
    AND version > ifnull(( --? by_version
    AND version < ifnull(( --? by_version_back
        SELECT version FROM ledger WHERE seq = :after AND stream_n = (@row_number) --? one_stream
    ), 0) --? by_version
    ), 9223372036854775807) --? by_version_back
    AND +tenant = :tenant --? tenant
    AND +kind = :kind --? kind
    AND +id = :id --? id
    AND key = :key AND key IS NOT NULL --? key
    AND tenant = :tenant --? key_of_tenant
    AND correlation = :correlation AND correlation <> '' --? correlation
    AND tenant = :tenant --? correlation_of_tenant
    AND correlation = '' --? no_correlation
    AND turn = :turn --? turn
    AND at >= :since_at --? since_at
    AND at < :until_at --? until_at
    ORDER BY seq --? by_seq
    ORDER BY seq DESC --? by_seq_back
    ORDER BY version --? by_version
    ORDER BY version DESC --? by_version_back
    LIMIT :limit
) AS l;

-- ledger_span: The next blocks in a row that may hold the instants asked for: where they begin and where they end.
SELECT json_group_array(json_array(first, last)) FROM (
    SELECT
        b.first, --? forwards
        ifnull((SELECT g.first - 1 FROM ledger_block AS g WHERE g.last > b.last AND (FALSE --? forwards
        ifnull((SELECT g.last + 1 FROM ledger_block AS g WHERE g.last < b.first AND (FALSE --? backwards
            OR g.at_max < :since_at --? since_at
            OR g.at_min >= :until_at --? until_at
        ) ORDER BY g.last LIMIT 1), :last) AS last --? forwards
        ) ORDER BY g.last DESC LIMIT 1), :first) AS first, --? backwards
        b.last --? backwards
    FROM ledger_block AS b
    WHERE b.last >= :first --? forwards
    WHERE b.last <= (SELECT last FROM ledger_block WHERE last >= :last ORDER BY last LIMIT 1) --? backwards
    AND b.at_max >= :since_at --? since_at
    AND b.at_min < :until_at --? until_at
    ORDER BY b.last LIMIT 1 --? forwards
    ORDER BY b.last DESC LIMIT 1 --? backwards
);

-- ledger_of_tenant: The same of one tenant: each of its kinds is read along an index, and the pages are merged.
WITH RECURSIVE kinds (kind) AS (
    SELECT :kind --? kind
    SELECT min(kind) FROM ledger WHERE tenant = :tenant --? any_kind
    UNION ALL --? any_kind
    SELECT (SELECT min(l.kind) FROM ledger AS l WHERE l.tenant = :tenant AND l.kind > k.kind) --? any_kind
    FROM kinds AS k WHERE k.kind IS NOT NULL --? any_kind
)
SELECT json_group_array(@segment_columns) FROM (
    SELECT l.* FROM (
        SELECT l.seq AS n FROM kinds AS k CROSS JOIN ledger AS l ON l.seq IN (
            SELECT seq FROM ledger INDEXED BY ledger_kind
            WHERE tenant = :tenant AND kind = k.kind
            AND seq BETWEEN :first AND :last
            AND +id = :id --? id
            AND +correlation = '' --? no_correlation
            AND +turn = :turn --? turn
            AND at >= :since_at --? since_at
            AND at < :until_at --? until_at
            ORDER BY seq --? by_seq
            ORDER BY seq DESC --? by_seq_back
            LIMIT :limit
        )
        ORDER BY n --? by_seq
        ORDER BY n DESC --? by_seq_back
        LIMIT :limit
    ) AS page CROSS JOIN ledger AS l ON l.seq = page.n
    ORDER BY page.n --? by_seq
    ORDER BY page.n DESC --? by_seq_back
) AS l;

-- ledger_between: The same where instants are asked for: only blocks of the ledger that may hold them are looked at.
SELECT json_group_array(@segment_columns) FROM (
    SELECT l.* FROM ledger_block AS b CROSS JOIN ledger AS l
    WHERE l.seq BETWEEN b.first AND b.last
    AND b.last > :after AND l.seq > :after --? forwards
    AND b.first < :after AND l.seq < :after --? backwards
    AND b.at_max >= :since_at AND l.at >= :since_at --? since_at
    AND b.at_min < :until_at AND l.at < :until_at --? until_at
    AND +l.kind = :kind --? kind
    AND +l.id = :id --? id
    AND +l.correlation = '' --? no_correlation
    AND +l.turn = :turn --? turn
    ORDER BY b.last, l.seq --? by_seq
    ORDER BY b.last DESC, l.seq DESC --? by_seq_back
    LIMIT :limit
) AS l;

-- widen_block: Let a block of the ledger hold an instant too.
UPDATE ledger_block SET at_min = min(at_min, :at), at_max = max(at_max, :at)
WHERE first <= :seq AND last >= :seq AND (:at < at_min OR :at > at_max);

-- history_end: How many segments a stream has up to a version, and where the last of them stands.
SELECT json_array(count(*), max(seq)) FROM ledger
WHERE stream_n = (@row_number) AND version <= :version;

-- drop_history: Take out a stream's segments up to a version.
DELETE FROM ledger WHERE stream_n = (@row_number) AND version <= :version;

-- high_water: The latest instant of any segment: of the blocks that ended, and of what came after them.
SELECT max(at) FROM (
    SELECT max(at_max) AS at FROM ledger_block WHERE last < 9223372036854775807
    UNION ALL
    SELECT max(at) FROM ledger WHERE seq >= (SELECT first FROM ledger_block WHERE last = 9223372036854775807)
);
