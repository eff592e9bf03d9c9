-- Statements that look at the whole database, for `verify`; in the form of `queries.sql`.

-- heads: the head that was recorded and what is there, in one snapshot
SELECT h.segments, h.digest, h.effects, s.segments, s.digest, (SELECT count(*) FROM betimes.effect), h.unrecorded,
    h.unrecorded_until, s.last_at
FROM (
    SELECT coalesce(sum(segments), 0)::bigint AS segments, coalesce(sum(digest), 0)::bigint AS digest,
        coalesce(sum(effects), 0)::bigint AS effects, coalesce(sum(unrecorded), 0)::bigint AS unrecorded,
        max(unrecorded_until) AS unrecorded_until
    FROM betimes.head
) h, (
    SELECT coalesce(sum(version), 0)::bigint AS segments, coalesce(sum(betimes.head_part(digest)), 0)::bigint AS digest,
        max(at) AS last_at
    FROM betimes.stream WHERE version > 0
) s;

-- astray: keys in force, recent segments, effects and policies that lead nowhere, at most so many of each
-- Rows are compared as sets. Looked up one by one without statistics, as in a copy that was just restored, each would be
-- sought among all segments of its tenant and kind.
(SELECT 'key ' || tenant || '/' || collection || '/' || key, 'no segment has this idempotency key'
FROM (
    SELECT tenant, kind, id, version, collection, key FROM betimes.key
    WHERE expires_at > (SELECT betimes.clock(:now)) AND version > 0
    EXCEPT
    SELECT tenant, kind, id, version, collection, key FROM betimes.ledger WHERE key IS NOT NULL
) k
LIMIT :limit)
UNION ALL
(SELECT 'segment ' || l.kind || ':' || l.id || ':' || l.version, 'its idempotency key is missing'
FROM betimes.ledger l
LEFT JOIN betimes.key k ON k.tenant = l.tenant AND k.collection = l.collection AND k.key = l.key
WHERE l.key IS NOT NULL AND l.at > :since_at AND k.key IS NULL
LIMIT :limit)
UNION ALL
(SELECT 'effect ' || kind || ':' || id || ':' || version || ':' || place,
    'its segment is missing, or its columns contradict each other'
FROM betimes.effect
WHERE status NOT IN ('pending', 'leased', 'done', 'failed', 'dead')
    OR (status IN ('pending', 'leased')) <> (next_attempt_at IS NOT NULL)
    OR (status IN ('done', 'failed', 'dead')) <> (finished_at IS NOT NULL)
LIMIT :limit)
UNION ALL
(SELECT 'effect ' || e.kind || ':' || e.id || ':' || e.version || ':' || e.place,
    'its segment is missing, or its columns contradict each other'
FROM (
    SELECT tenant, kind, id, version FROM betimes.effect
    EXCEPT
    SELECT tenant, kind, id, version FROM betimes.ledger
) gone
JOIN betimes.effect e USING (tenant, kind, id, version)
LEFT JOIN (
    SELECT tenant, kind, id, max(version) AS version FROM betimes.ledger WHERE turn = 'checkpoint'
    GROUP BY tenant, kind, id
) pruned USING (tenant, kind, id)
WHERE pruned.version IS NULL OR pruned.version < e.version
LIMIT :limit)
UNION ALL
(SELECT 'policy ' || named.policy, 'segments name it, but it is missing'
FROM (SELECT DISTINCT policy FROM betimes.ledger WHERE policy <> '') named
WHERE NOT EXISTS (SELECT FROM betimes.policy p WHERE p.fingerprint = named.policy)
LIMIT :limit);

-- policies: every policy
SELECT fingerprint, body FROM betimes.policy;

-- high_water: what time it is, and the latest instant of any segment
SELECT betimes.clock(:now), (
    SELECT max(at) FROM (
        SELECT max(at_max) AS at FROM betimes.ledger_block WHERE last < 9223372036854775807
        UNION ALL
        SELECT max(at) FROM betimes.ledger
        WHERE seq >= (SELECT first FROM betimes.ledger_block WHERE last = 9223372036854775807)
    ) latest
);
