-- move_head: Add what a commit wrote to the head.
UPDATE head SET segments = segments + :segments, digest = digest + :digest, effects = effects + :effects WHERE n = 1;

-- recorded_head: The head, and how much of it was there before heads were recorded.
SELECT json_array(segments, digest, effects, unrecorded, unrecorded_until) FROM head WHERE n = 1;

-- stream_heads: The version and digest each stream ends in, and its last instant, after a row number.
SELECT json_group_array(json_array(n, version, digest, at)) FROM (
    SELECT n, version, digest, at FROM stream WHERE n > :after ORDER BY n LIMIT :limit
);

-- count_effects: How many effects there are.
SELECT count(*) FROM effect;

-- astray_keys: Keys in force whose segment is not there or has another key.
SELECT json_group_array(json_array(tenant || '/' || collection || '/' || key)) FROM (
    SELECT k.tenant, k.collection, k.key FROM key AS k
    LEFT JOIN stream AS s ON s.tenant = k.stream_tenant AND s.kind = k.stream_kind AND s.id = k.stream_id
    LEFT JOIN ledger AS l ON l.stream_n = s.n AND l.version = k.version
    WHERE k.expires_at > :now AND (l.seq IS NULL OR l.key IS NOT k.key OR l.collection IS NOT k.collection)
    LIMIT :limit
);

-- lost_keys: Segments since an instant whose key is not there.
SELECT json_group_array(json_array(kind || ':' || id || ':' || version)) FROM (
    SELECT l.kind, l.id, l.version FROM ledger AS l
    LEFT JOIN key AS k ON k.tenant = l.tenant AND k.collection = l.collection AND k.key = l.key
    WHERE l.key IS NOT NULL AND l.at > :since_at AND k.key IS NULL
    LIMIT :limit
);

-- astray_effects: Effects whose segment is not there though the history reaches back to it, or that stand wrong.
SELECT json_group_array(json_array(kind || ':' || id || ':' || version || ':' || place)) FROM (
    SELECT * FROM effect AS e
    WHERE status NOT IN ('pending', 'leased', 'done', 'failed', 'dead')
    OR (status IN ('pending', 'leased')) <> (next_attempt_at IS NOT NULL)
    OR (status IN ('done', 'failed', 'dead')) <> (finished_at IS NOT NULL)
    OR NOT json_valid(payload) OR NOT json_valid(history)
    OR NOT EXISTS (
        SELECT 1 FROM stream AS s JOIN ledger AS l ON l.stream_n = s.n
        WHERE s.tenant = e.tenant AND s.kind = e.kind AND s.id = e.id
        AND (l.version = e.version OR (l.turn = 'checkpoint' AND l.version >= e.version))
    )
    LIMIT :limit
);

-- lost_policies: Policies that segments name and that are not there.
SELECT json_group_array(json_array(policy)) FROM (
    SELECT DISTINCT policy FROM ledger
    WHERE policy <> '' AND policy NOT IN (SELECT fingerprint FROM policy) LIMIT :limit
);

-- policies: Every policy.
SELECT json_group_array(json_array(fingerprint, body)) FROM policy;

-- damage: What SQLite itself finds wrong with the file.
SELECT json_group_array(json_array(integrity_check)) FROM pragma_integrity_check WHERE integrity_check <> 'ok';
