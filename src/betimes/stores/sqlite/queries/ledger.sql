-- segment_columns: A segment as it is stored.
json_array(
    l.seq, l.tenant, l.kind, l.id, l.version, l.turn, l.at, l.schema, l.command, l.events, l.policy, l.prev, l.digest,
    l.collection, l.key, l.verdict, l.reply, l.actor, l.correlation, l.cause
);

-- append_segments: New segments, numbered in the order they are given.
INSERT OR ROLLBACK INTO ledger (
    seq, tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest,
    collection, key, verdict, reply, actor, correlation, cause
)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- append_alike_segments: New segments that share most columns, numbered in the order they are given.
INSERT OR ROLLBACK INTO ledger (
    tenant, kind, at, schema, command, policy, reply, actor, correlation, cause,
    id, version, turn, events, prev, digest
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, column1, column2, column3, column4, column5, column6
FROM (VALUES /* rows */ (?, ?, ?, ?, ?, ?));

-- turn_at: The turn that wrote one version.
SELECT turn FROM ledger WHERE tenant = :tenant AND kind = :kind AND id = :id AND version = :version;

-- history: A stream's segments after a version.
SELECT json_group_array(@segment_columns) FROM (
    SELECT * FROM ledger
    WHERE tenant = :tenant AND kind = :kind AND id = :id AND version > :after_version
    ORDER BY version LIMIT :limit
) AS l;

-- ledger: A page of segments in commit order; only a single stream or a correlation is worth leaving that order for.
SELECT json_group_array(@segment_columns) FROM (
    SELECT * FROM ledger WHERE TRUE
    AND seq > :after --? forwards
    AND seq < :after --? backwards
    AND tenant = :tenant AND kind = :kind AND id = :id --? one_stream
    AND +tenant = :tenant --? tenant
    AND +kind = :kind --? kind
    AND +id = :id --? id
    AND key = :key --? key
    AND correlation = :correlation AND correlation <> '' --? correlation
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

-- history_end: How many segments a stream has up to a version, and where the last of them stands.
SELECT json_array(count(*), max(seq)) FROM ledger
WHERE tenant = :tenant AND kind = :kind AND id = :id AND version <= :version;

-- drop_history: Take out a stream's segments up to a version.
DELETE FROM ledger WHERE tenant = :tenant AND kind = :kind AND id = :id AND version <= :version;
