-- The statements of the adapter, with those of `shares.sql`: `-- name: what it does`, then one statement.
-- `:name` is a parameter. A line that ends in `--?` is left out when its parameter, or the value named after it, is not
-- given.
-- `(SELECT betimes.clock(:now))` is read once per statement, and so an index can be searched for it.

-- now: what time it is
SELECT betimes.clock(:now);

-- begin_batch: lock, reserve and read what a batch needs
-- Streams that are as they were cached share one row: how many there are, and their places unless it is all of them.
WITH answer AS MATERIALIZED (
    SELECT *, schema IS NULL AND (part = 'skip' AND version > 0 OR part = 'read') AS same
    FROM betimes.begin_batch(:waits, :skips, :reads, :keys, :sends, :now)
)
SELECT part, place, version, schema, state, at, alarm_at, digest FROM answer WHERE NOT same
UNION ALL
SELECT 'same', count(*), NULL, NULL,
    CASE WHEN count(*) < cardinality(:skips::betimes.asked_stream[]) THEN json_agg(place)::text END, NULL, NULL, NULL
FROM answer WHERE same AND part = 'skip';

-- begin_turn: the same for one command on one stream
SELECT * FROM betimes.begin_turn(:tenant, :kind, :id, :cached, :collection, :key, :reads, :now);

-- begin_due: lock streams that are due, then read those of `reads` that moved since they were cached, by their places
-- (an Append runs its parts in order, and a volatile function sees what was committed before it began)
SELECT * FROM betimes.begin_due(:index, :kinds, :held, :tenants, :shares, :from_at, :until_at, :limit, :now)
UNION ALL
@read_beside;

-- commit_batch: write everything a batch leads to
SELECT betimes.commit_batch(
    :streams::betimes.stream_write[], :segments::betimes.segment_write[], :keys::betimes.key_write[],
    :effects::betimes.effect_write[], :applied::betimes.effect_id[], :dead::betimes.dead_send[],
    :settled::betimes.settlement[], :unwritten::betimes.stream_id[], :unused::betimes.key_id[], true, :now
);

-- commit_turn: write a stream, its segment and perhaps its key
CALL betimes.commit_turn(
    :tenant, :kind, :id, :expected, :version, :schema, :state, :at, :alarm_at, :digest, :status, :owner, :due_at,
    :listed_at, :turn, :command, :events, :policy, :prev, :collection, :key, :verdict, :reply, :actor, :correlation, :cause,
    :request, :expires_at, :now
);

-- presume: lock and compare what was decided upon without having asked
CALL betimes.presume(:locks::betimes.asked_stream[], :reads::betimes.asked_stream[], :sent_at);

-- commit_presumed: the same for a batch, and write it; what time it is
SELECT betimes.commit_presumed(
    :locks::betimes.asked_stream[], :reads::betimes.asked_stream[], :sent_at, :streams::betimes.stream_write[],
    :segments::betimes.segment_write[], :keys::betimes.key_write[], :effects::betimes.effect_write[],
    :settled::betimes.settlement[], :now
);

-- turn_at: the turn that wrote a version
SELECT turn FROM betimes.ledger WHERE tenant = :tenant AND kind = :kind AND id = :id AND version = :version;

-- read_beside: rows of streams that are read without a lock, behind those that were locked
SELECT place, NULL, NULL, NULL, version, schema, state, at, alarm_at, digest
FROM betimes.begin_batch('{}', '{}', :reads, '{}', '{}', :now) WHERE part = 'read' AND schema IS NOT NULL;

-- next_alarm: when the next stream wants to be woken or the next call is due
SELECT least(
    (
        SELECT wake_at FROM betimes.stream WHERE wake_at IS NOT NULL AND kind = ANY (:kinds)
        AND tenant = :tenant --?
        AND (tenant || '/' || kind) <> ALL (:held::text[]) --?
        ORDER BY wake_at LIMIT 1
    ),
    (
        @next_call
    )
);

-- next_due: when the next stream can be claimed or swept or the next call is due
SELECT least(
    (
        SELECT min(s.due_at) FROM unnest(:kinds::text[]) k
        CROSS JOIN LATERAL (
            SELECT due_at FROM betimes.stream WHERE due_at IS NOT NULL AND kind = k
            AND tenant = :tenant --?
            AND (tenant || '/' || kind) <> ALL (:held::text[]) --?
            ORDER BY due_at LIMIT 1
        ) s
    ),
    (
        @next_call
    )
);

-- next_call: when the next call of these executors is due
SELECT min(c.next_attempt_at)
FROM unnest(:executors::text[]) x
CROSS JOIN LATERAL (
    SELECT e.next_attempt_at FROM betimes.effect e
    WHERE e.executor = x AND e.executor <> 'send' AND e.status IN ('pending', 'leased')
    AND e.tenant = :tenant --?
    AND (e.tenant || '/' || e.kind) <> ALL (:held::text[]) --?
    ORDER BY e.next_attempt_at LIMIT 1
) c;

-- snooze: let a wake rest, unless the stream has moved on
UPDATE betimes.stream SET snooze_until = :until, snooze_error = :error
WHERE tenant = :tenant AND kind = :kind AND id = :id AND version = :version AND version > 0;

-- lease_picked: take the calls that were picked; an attempt whose lease ran out is part of their history
UPDATE betimes.effect e
SET status = 'leased', attempts = e.attempts + (NOT p.spent)::integer, fence = e.fence + 1,
    history = CASE WHEN e.status = 'leased' AND NOT p.spent
        THEN betimes.with_attempt(e.history, (SELECT betimes.clock(:now)), false, :ran_out, NULL)
        ELSE e.history END,
    next_attempt_at = (SELECT betimes.clock(:now)) + e.lease_s * 1000000::bigint
FROM picked p
WHERE e.tenant = p.tenant AND e.kind = p.kind AND e.id = p.id AND e.version = p.version AND e.place = p.place
RETURNING p.due_at, e.tenant, e.kind, e.id, e.version, e.place, e.executor, e.payload, e.attempts, e.created_at,
    e.fence, e.lease_s, e.at_most_once, e.attempts_max, e.to_tenant, e.to_kind, e.to_id, p.spent;

-- lease_calls: take calls that are due, the oldest of each executor first
WITH picked AS MATERIALIZED (
    SELECT c.*
    FROM unnest(:executors::text[]) x
    CROSS JOIN LATERAL (
        SELECT e.tenant, e.kind, e.id, e.version, e.place, e.next_attempt_at AS due_at,
            e.status = 'leased' AND (e.at_most_once OR e.attempts >= e.attempts_max) AS spent
        FROM betimes.effect e
        WHERE e.executor = x AND e.executor <> 'send' AND e.status IN ('pending', 'leased')
            AND e.next_attempt_at <= (SELECT betimes.clock(:now))
            AND (e.tenant || '/' || e.kind) <> ALL (:held::text[]) --?
        ORDER BY e.next_attempt_at, e.tenant, e.kind, e.id, e.version, e.place LIMIT :limit FOR UPDATE SKIP LOCKED
    ) c
    ORDER BY c.due_at, c.tenant, c.kind, c.id, c.version, c.place LIMIT :limit
)
@lease_picked;

-- renew_lease: extend a lease by its own length, if it is still held
UPDATE betimes.effect SET next_attempt_at = betimes.clock(:now) + lease_s * 1000000::bigint
WHERE tenant = :tenant AND kind = :kind AND id = :id AND version = :version AND place = :place
    AND fence = :fence AND status = 'leased'
RETURNING true;

-- waiting_sends: the oldest commands to other streams that nobody has applied
SELECT tenant, kind, id, version, place, to_tenant, to_kind, to_id, payload, created_at
FROM betimes.effect
WHERE executor = 'send' AND status = 'pending' AND created_at < :created_before
    AND tenant = :tenant --?
    AND to_kind = ANY(:kinds::text[]) --?
    AND (tenant || '/' || kind) <> ALL (:held::text[]) --?
    AND created_at >= :after_created_at --?
    AND (created_at, tenant, kind, id, version, place) > (:after_created_at, :after_tenant, :after_kind, :after_id, :after_version, :after_place) --?
ORDER BY created_at, tenant, kind, id, version, place LIMIT :limit;

-- revive_effect: give a dead letter fresh attempts
UPDATE betimes.effect
SET status = 'pending', attempts = 0, next_attempt_at = betimes.clock(:now), finished_at = NULL
WHERE tenant = :tenant AND kind = :kind AND id = :id AND version = :version AND place = :place AND status = 'dead'
RETURNING true;

-- discard_effect: remove a dead letter
DELETE FROM betimes.effect
WHERE tenant = :tenant AND kind = :kind AND id = :id AND version = :version AND place = :place AND status = 'dead'
RETURNING true;

-- revive_effects: give dead letters fresh attempts, locked in the order of their names
WITH chosen AS (
    SELECT e.tenant, e.kind, e.id, e.version, e.place FROM betimes.effect e
    JOIN unnest(:tenants::text[], :kinds::text[], :ids::text[], :versions::bigint[], :places::integer[])
        AS a (tenant, kind, id, version, place) USING (tenant, kind, id, version, place)
    WHERE e.status = 'dead' ORDER BY e.tenant, e.kind, e.id, e.version, e.place FOR UPDATE OF e
)
UPDATE betimes.effect e
SET status = 'pending', attempts = 0, next_attempt_at = betimes.clock(:now), finished_at = NULL
FROM chosen c
WHERE (e.tenant, e.kind, e.id, e.version, e.place) = (c.tenant, c.kind, c.id, c.version, c.place)
RETURNING e.tenant, e.kind, e.id, e.version, e.place;

-- discard_effects: remove dead letters, locked in the order of their names
WITH chosen AS (
    SELECT e.tenant, e.kind, e.id, e.version, e.place FROM betimes.effect e
    JOIN unnest(:tenants::text[], :kinds::text[], :ids::text[], :versions::bigint[], :places::integer[])
        AS a (tenant, kind, id, version, place) USING (tenant, kind, id, version, place)
    WHERE e.status = 'dead' ORDER BY e.tenant, e.kind, e.id, e.version, e.place FOR UPDATE OF e
)
DELETE FROM betimes.effect e USING chosen c
WHERE (e.tenant, e.kind, e.id, e.version, e.place) = (c.tenant, c.kind, c.id, c.version, c.place)
RETURNING e.tenant, e.kind, e.id, e.version, e.place;

-- load: rows that exist, without locks
SELECT s.tenant, s.kind, s.id, s.version, s.schema, s.state, s.at, s.alarm_at, s.digest
FROM unnest(:streams::betimes.stream_id[]) a
JOIN betimes.stream s ON s.tenant = a.tenant AND s.kind = a.kind AND s.id = a.id
WHERE s.version > 0;

-- seen: what a key was used for, while it is kept
SELECT k.request, l.seq, l.tenant, l.kind, l.id, l.version, l.turn, l.at, l.schema, l.command, l.events, l.policy,
    l.prev, l.digest, l.collection, l.key, l.verdict, l.reply, l.actor, l.correlation, l.cause
FROM betimes.key k
JOIN betimes.ledger l ON l.tenant = k.tenant AND l.kind = k.kind AND l.id = k.id AND l.version = k.version
WHERE k.tenant = :tenant AND k.collection = :collection AND k.key = :key AND k.expires_at > betimes.clock(:now);

-- save_policy: keep a policy body
INSERT INTO betimes.policy (fingerprint, body) VALUES (:fingerprint, :body) ON CONFLICT DO NOTHING;

-- policy: a policy body
SELECT body FROM betimes.policy WHERE fingerprint = :fingerprint;

-- replace_history: put a checkpoint in place of a stream's older segments
SELECT betimes.replace_history(:checkpoint, :now);

-- forget: remove keys that have expired and calls that ended long ago
WITH old_keys AS MATERIALIZED (
    SELECT tenant, collection, key FROM betimes.key
    WHERE expires_hour <= (SELECT betimes.clock(:now) / 3600000000) AND expires_at <= (SELECT betimes.clock(:now))
    ORDER BY expires_hour LIMIT :limit FOR UPDATE SKIP LOCKED
), keys AS (
    DELETE FROM betimes.key k USING old_keys o
    WHERE k.tenant = o.tenant AND k.collection = o.collection AND k.key = o.key RETURNING true
), old_effects AS MATERIALIZED (
    SELECT tenant, kind, id, version, place FROM betimes.effect
    WHERE finished_at < :before_at AND finished_at IS NOT NULL AND status <> 'dead'
    ORDER BY finished_at LIMIT :limit FOR UPDATE SKIP LOCKED
), effects AS (
    DELETE FROM betimes.effect e USING old_effects o
    WHERE e.tenant = o.tenant AND e.kind = o.kind AND e.id = o.id AND e.version = o.version AND e.place = o.place
    RETURNING true
)
SELECT (SELECT count(*) FROM keys) + (SELECT count(*) FROM effects);

-- backlog: what is owed, and since when
WITH instant AS MATERIALIZED (SELECT betimes.clock(:now) AS now),
due AS (
    SELECT count(*) AS alarms, min(wake_at) AS oldest_at FROM betimes.stream
    WHERE wake_at <= (SELECT now FROM instant) AND kind = ANY (:kinds)
        AND (tenant || '/' || kind) <> ALL (:held::text[]) --?
),
calls AS (
    SELECT executor, count(*) AS owed,
        count(*) FILTER (
            WHERE next_attempt_at <= (SELECT now FROM instant) - 60000000
            AND (tenant || '/' || kind) <> ALL (:held::text[]) --?
        ) AS late
    FROM betimes.effect WHERE executor <> 'send' AND status IN ('pending', 'leased') GROUP BY executor
)
SELECT due.alarms, due.oldest_at,
    (
        SELECT count(*) FROM betimes.stream WHERE snooze_until > (SELECT now FROM instant) AND kind = ANY (:kinds)
    ) AS snoozed,
    (SELECT coalesce(sum(owed), 0)::bigint FROM calls)
        + (SELECT count(*) FROM betimes.effect WHERE executor = 'send' AND status = 'pending') AS pending,
    (SELECT count(*) FROM betimes.effect WHERE status = 'dead') AS dead,
    (SELECT coalesce(json_object_agg(executor, late), '{}')::text FROM calls WHERE late > 0) AS orphaned
FROM due;
