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
(SELECT 'key ' || k.tenant || '/' || k.collection || '/' || k.key, 'it leads to no segment that has it'
FROM betimes.key k
LEFT JOIN betimes.ledger l ON l.tenant = k.tenant AND l.kind = k.kind AND l.id = k.id AND l.version = k.version
WHERE k.expires_at > (SELECT betimes.clock(:now)) AND k.version > 0
    AND (l.seq IS NULL OR l.key IS DISTINCT FROM k.key OR l.collection IS DISTINCT FROM k.collection)
LIMIT :limit)
UNION ALL
(SELECT 'segment ' || l.kind || ':' || l.id || ':' || l.version, 'its idempotency key is not there any more'
FROM betimes.ledger l
LEFT JOIN betimes.key k ON k.tenant = l.tenant AND k.collection = l.collection AND k.key = l.key
WHERE l.key IS NOT NULL AND l.at > :since_at AND k.key IS NULL
LIMIT :limit)
UNION ALL
(SELECT 'effect ' || e.kind || ':' || e.id || ':' || e.version || ':' || e.place,
    'its segment is not there, or its columns contradict each other'
FROM betimes.effect e
WHERE e.status NOT IN ('pending', 'leased', 'done', 'failed', 'dead')
    OR (e.status IN ('pending', 'leased')) <> (e.next_attempt_at IS NOT NULL)
    OR (e.status IN ('done', 'failed', 'dead')) <> (e.finished_at IS NOT NULL)
    OR NOT EXISTS (
        SELECT FROM betimes.ledger l
        WHERE l.tenant = e.tenant AND l.kind = e.kind AND l.id = e.id
            AND (l.version = e.version OR (l.turn = 'checkpoint' AND l.version >= e.version))
    )
LIMIT :limit)
UNION ALL
(SELECT 'policy ' || named.policy, 'segments name it, and it is not there'
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
