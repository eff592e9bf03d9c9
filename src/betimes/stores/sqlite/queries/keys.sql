-- seen_keys: Keys that are still kept, by their place in the question, each with the segment it led to.
SELECT json_group_array(json_array(asked.column1, k.request, @segment_columns))
FROM (VALUES /* rows */ (?, ?, ?, ?)) AS asked
CROSS JOIN key AS k ON k.tenant = asked.column2 AND k.collection = asked.column3 AND k.key = asked.column4
CROSS JOIN stream AS s ON s.tenant = k.stream_tenant AND s.kind = k.stream_kind AND s.id = k.stream_id
CROSS JOIN ledger AS l ON l.stream_n = s.n AND l.version = k.version
WHERE k.expires_at > ?;

-- use_keys: Keys that are used now; one that is on record, expired or not, is missing from the count.
INSERT OR IGNORE INTO key (tenant, collection, key, request, stream_tenant, stream_kind, stream_id, version, expires_at)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- use_keys_again: Keys that are used now and had expired; only these are counted.
INSERT INTO key (tenant, collection, key, request, stream_tenant, stream_kind, stream_id, version, expires_at)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
    request = excluded.request, stream_tenant = excluded.stream_tenant, stream_kind = excluded.stream_kind,
    stream_id = excluded.stream_id, version = excluded.version, expires_at = excluded.expires_at
WHERE key.expires_at <= ?;

-- history_is_needed: Whether a key that is still kept leads to a stream's history up to a version.
SELECT count(*) FROM ledger AS l
CROSS JOIN key AS k ON k.tenant = l.tenant AND k.collection = l.collection AND k.key = l.key
WHERE l.stream_n = (@row_number) AND l.version <= :version AND k.expires_at > :now
    AND k.stream_tenant = l.tenant AND k.stream_kind = l.kind AND k.stream_id = l.id AND k.version = l.version;

-- forget_keys: Remove keys that have expired.
DELETE FROM key WHERE rowid IN (SELECT rowid FROM key WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit);
