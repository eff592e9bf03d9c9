-- Statements that list streams, segments and effects, in the same form as in `queries.sql`. Each is read along an index,
-- in its order; what narrows it besides is looked through. Of many statuses only those are searched for that streams
-- have: from each that is found to the next that is asked for.

-- streams: streams that exist, in order of their ids
SELECT @stream_columns
FROM betimes.stream
WHERE version > 0
    @stream_filters
    AND id >= :prefix AND id < :prefix_end --?
    AND owner <> '' --? owned
    AND status = ANY (:among) --?
    AND (tenant, kind, id) > (:after_tenant, :after_kind, :after_id) --?
ORDER BY tenant, kind, id LIMIT :limit;

-- stream_filters: lines that narrow a list of streams, whatever its order
AND state IS NOT NULL --? living
    AND tenant = :tenant --?
    AND kind = :kind --?
    AND owner = :owner --?
    AND status = :status --?;

-- newest_streams: streams that exist, from the last created on
SELECT @stream_columns
FROM betimes.stream
WHERE created_at IS NOT NULL AND version > 0
    AND tenant = :tenant --?
    AND kind = :kind --?
    AND owner = :owner --?
    AND status = ANY (:among) --?
    @newest_filters
ORDER BY created_at DESC, tenant DESC, kind DESC, id DESC LIMIT :limit;

-- newest_streams_of_owner: the same of one owner of a kind: those that stand in a list, which are few, and the others
SELECT s.*
FROM (
    SELECT @stream_columns FROM betimes.stream
    WHERE tenant = :tenant AND kind = :kind AND owner = :owner AND owner <> '' AND listed_at IS NOT NULL AND version > 0
        AND status = ANY (:among) --?
        @newest_filters
    UNION ALL
    (
        SELECT @stream_columns FROM betimes.stream
        WHERE tenant = :tenant AND kind = :kind AND owner = :owner AND owner <> '' AND listed_at IS NULL AND version > 0
            AND status = ANY (:among) --?
            @newest_filters
        ORDER BY created_at DESC, id DESC LIMIT :limit
    )
) s
ORDER BY s.created_at DESC, s.id DESC LIMIT :limit;

-- newest_streams_of_kind: the same of a kind, of any status or of these: each that there is read along an index
WITH RECURSIVE present (status) AS (
    (
        SELECT status FROM betimes.stream
        WHERE tenant = :tenant AND kind = :kind AND status <> ''
            AND status >= (SELECT min(a COLLATE "C") FROM unnest(:among::text[]) a) --?
        ORDER BY tenant, kind, status LIMIT 1
    )
    UNION ALL
    SELECT n.status FROM present p CROSS JOIN LATERAL (
        SELECT status FROM betimes.stream
        WHERE tenant = :tenant AND kind = :kind AND status <> '' AND status > p.status
            AND status >= (SELECT min(a COLLATE "C") FROM unnest(:among::text[]) a WHERE a COLLATE "C" > p.status) --?
        ORDER BY tenant, kind, status LIMIT 1
    ) n
)
SELECT s.*
FROM (
    SELECT t.*
    FROM present x
    CROSS JOIN LATERAL (
        SELECT @stream_columns FROM betimes.stream
        WHERE tenant = :tenant AND kind = :kind AND status = x.status AND status <> '' AND version > 0
            @newest_filters
        ORDER BY created_at DESC, id DESC LIMIT :limit
    ) t
    WHERE true
        AND x.status = ANY (:among) --?
    UNION ALL
    (
        SELECT @stream_columns FROM betimes.stream
        WHERE tenant = :tenant AND kind = :kind AND status = '' AND created_at IS NOT NULL AND version > 0
            AND :any_status
            @newest_filters
        ORDER BY created_at DESC, id DESC LIMIT :limit
    )
) s
ORDER BY s.created_at DESC, s.id DESC LIMIT :limit;

-- newest_filters: lines that narrow a list of streams that goes from the last created on
AND state IS NOT NULL --? living
    AND status = :status --?
    AND created_at <= :after_created_at --?
    AND (created_at, tenant, kind, id) < (:after_created_at, :after_tenant, :after_kind, :after_id) --?;

-- due_streams: streams that exist and are due by an instant, the earliest first
SELECT @stream_columns
FROM betimes.stream
WHERE version > 0 AND due_at <= :due_before
    @stream_filters
    AND status = ANY (:among) AND owner <> '' --?
    AND due_at >= :after_due_at --?
    AND (due_at, tenant, kind, id) > (:after_due_at, :after_tenant, :after_kind, :after_id) --?
ORDER BY due_at, tenant, kind, id LIMIT :limit;

-- due_streams_among: streams with an owner that are due, of any of these statuses, each that there is along an index
WITH RECURSIVE present (status) AS (
    (
        SELECT status FROM betimes.stream
        WHERE kind = :kind AND owner <> '' AND due_at IS NOT NULL
            AND tenant = :tenant --?
            AND status >= (SELECT min(a COLLATE "C") FROM unnest(:among::text[]) a)
        ORDER BY kind, status, due_at LIMIT 1
    )
    UNION ALL
    SELECT n.status FROM present p CROSS JOIN LATERAL (
        SELECT status FROM betimes.stream
        WHERE kind = :kind AND owner <> '' AND due_at IS NOT NULL
            AND tenant = :tenant --?
            AND status >= (SELECT min(a COLLATE "C") FROM unnest(:among::text[]) a WHERE a COLLATE "C" > p.status)
        ORDER BY kind, status, due_at LIMIT 1
    ) n
)
SELECT s.*
FROM present x
CROSS JOIN LATERAL (
    SELECT @stream_columns FROM betimes.stream
    WHERE kind = :kind AND status = x.status AND due_at <= :due_before AND owner <> '' AND version > 0
        AND tenant = :tenant --?
        AND state IS NOT NULL --? living
        AND owner = :owner --?
        AND status = :status --?
        AND due_at >= :after_due_at --?
        AND (due_at, tenant, kind, id) > (:after_due_at, :after_tenant, :after_kind, :after_id) --?
    ORDER BY due_at, tenant, id LIMIT :limit
) s
WHERE x.status = ANY (:among)
ORDER BY s.due_at, s.tenant, s.kind, s.id LIMIT :limit;

-- listed_streams: streams that stand in a list by an instant, the earliest first
SELECT @stream_columns
FROM betimes.stream
WHERE version > 0 AND listed_at <= :listed_before
    @stream_filters
    AND owner <> '' --? owned
    AND status = ANY (:among) --?
    AND listed_at >= :after_listed_at --?
    AND (listed_at, tenant, kind, id) > (:after_listed_at, :after_tenant, :after_kind, :after_id) --?
ORDER BY listed_at, tenant, kind, id LIMIT :limit;

-- history: a stream's row, beside its first segment, and a page of its segments
SELECT s.version AS row_version, s.schema AS row_schema, CASE WHEN coalesce(l.nth, 1) = 1 THEN s.state END AS row_state,
    s.at AS row_at, s.alarm_at AS row_alarm_at, s.status, s.owner, s.due_at, s.digest AS row_digest, s.snooze_until,
    s.created_at, s.listed_at, s.snooze_error,
    l.seq, l.tenant, l.kind, l.id, l.version, l.turn, l.at, l.schema, l.command, l.events, l.policy,
    l.prev, l.digest, l.collection, l.key, l.verdict, l.reply, l.actor, l.correlation, l.cause
FROM betimes.stream s
LEFT JOIN LATERAL (
    SELECT h.*, row_number() OVER (ORDER BY h.version) AS nth
    FROM betimes.ledger h
    WHERE h.tenant = s.tenant AND h.kind = s.kind AND h.id = s.id AND h.version > :after_version
    ORDER BY h.version LIMIT :limit
) l ON true
WHERE s.tenant = :tenant AND s.kind = :kind AND s.id = :id AND s.version > 0
ORDER BY l.version;

-- settled_seq: up to where the ledger can change no more
SELECT betimes.settled_seq();

-- ledger: segments in commit order, or against it
SELECT @segment_columns
FROM betimes.ledger
WHERE seq <= :settled
    AND seq > :after --?
    AND seq < :before --?
    AND tenant = :tenant --?
    AND kind = :kind --?
    AND key = :key AND key IS NOT NULL --?
    AND correlation <> '' --? correlation
    @segment_filters
ORDER BY seq --? forwards
ORDER BY seq DESC --? backwards
LIMIT :limit;

-- ledger_of_stream: segments of one stream by their versions, which is their commit order, from a place in it on
SELECT @segment_columns
FROM betimes.ledger
WHERE tenant = :tenant AND kind = :kind AND seq <= :settled
    AND seq > :after --?
    AND version > coalesce(( --? after
        SELECT version FROM betimes.ledger place --? after
        WHERE seq = :after AND tenant = :tenant AND kind = :kind AND id = :id --? after
    ), 0) --? after
    AND seq < :before --?
    AND version < coalesce(( --? before
        SELECT version FROM betimes.ledger place --? before
        WHERE seq = :before AND tenant = :tenant AND kind = :kind AND id = :id --? before
    ), 9223372036854775807) --? before
    @segment_filters
ORDER BY version --? forwards
ORDER BY version DESC --? backwards
LIMIT :limit;

-- ledger_span: the next blocks in a row that may hold the instants asked for: where they begin and where they end
SELECT b.first, coalesce((
    SELECT g.first - 1 FROM betimes.ledger_block g WHERE g.last > b.last AND (false
        OR g.at_max < :since_at --?
        OR g.at_min >= :until_at --?
    ) ORDER BY g.last LIMIT 1
), :last) AS last
FROM betimes.ledger_block b
WHERE b.last >= :first
    AND b.at_max >= :since_at --?
    AND b.at_min < :until_at --?
ORDER BY b.last LIMIT 1;

-- ledger_span_backwards: the same against commit order
SELECT coalesce((
    SELECT g.last + 1 FROM betimes.ledger_block g WHERE g.last < b.first AND (false
        OR g.at_max < :since_at --?
        OR g.at_min >= :until_at --?
    ) ORDER BY g.last DESC LIMIT 1
), :first) AS first, b.last
FROM betimes.ledger_block b
WHERE b.last <= (SELECT last FROM betimes.ledger_block WHERE last >= :last ORDER BY last LIMIT 1)
    AND b.at_max >= :since_at --?
    AND b.at_min < :until_at --?
ORDER BY b.last DESC LIMIT 1;

-- ledger_of_tenant: segments of one tenant in commit order, or against it: each of its kinds along an index, merged
WITH RECURSIVE kinds (kind) AS (
    SELECT :kind::text COLLATE "C" --?
    SELECT min(kind) FROM betimes.ledger WHERE tenant = :tenant --? any_kind
    UNION ALL --? any_kind
    SELECT (SELECT min(l.kind) FROM betimes.ledger l WHERE l.tenant = :tenant AND l.kind > k.kind) --? any_kind
    FROM kinds k WHERE k.kind IS NOT NULL --? any_kind
)
SELECT l.*
FROM kinds k
CROSS JOIN LATERAL (
    SELECT @segment_columns FROM betimes.ledger
    WHERE tenant = :tenant AND kind = k.kind AND seq + 0 >= :first AND seq + 0 <= :last
        @segment_filters
    ORDER BY seq + 0 --? forwards
    ORDER BY seq + 0 DESC --? backwards
    LIMIT :limit
) l
ORDER BY l.seq --? forwards
ORDER BY l.seq DESC --? backwards
LIMIT :limit;

-- ledger_between: segments in commit order, or against it, of blocks of the ledger that may hold the instants asked for
SELECT l.*
FROM betimes.ledger_block b
CROSS JOIN LATERAL (
    SELECT @segment_columns FROM betimes.ledger
    WHERE seq >= b.first AND seq <= b.last AND seq <= :settled
        AND seq > :after --?
        AND seq < :before --?
        AND kind = :kind --?
        @segment_filters
    ORDER BY seq --? forwards
    ORDER BY seq DESC --? backwards
    LIMIT :limit
) l
WHERE b.first <= :settled
    AND b.last > :after --?
    AND b.first < :before --?
    AND b.at_max >= :since_at --?
    AND b.at_min < :until_at --?
ORDER BY b.last, l.seq --? forwards
ORDER BY b.last DESC, l.seq DESC --? backwards
LIMIT :limit;

-- segment_columns: a segment as it is read
seq, tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest, collection, key,
    verdict, reply, actor, correlation, cause;

-- segment_filters: lines that narrow a list of segments
AND id = :id --?
    AND correlation = :correlation --?
    AND turn = :turn --?
    AND at >= :since_at --?
    AND at < :until_at --?;

-- stream_columns: a stream as it is listed
tenant, kind, id, version, schema, state, at, alarm_at, status, owner, due_at, digest, snooze_until, created_at,
    listed_at, snooze_error;

-- effect_columns: an effect as it is listed
tenant, kind, id, version, place, executor, payload, status, attempts, created_at, next_attempt_at,
    finished_at, last_error, at_most_once, to_tenant, to_kind, to_id, history;

-- effects: effects in order of their ids
SELECT @effect_columns
FROM betimes.effect
WHERE true
    AND tenant = :tenant --?
    AND tenant = :source_tenant --?
    AND kind = :source_kind --?
    AND id = :source_id --?
    AND version = :version --?
    AND executor = :executor --?
    AND status = :status --?
    AND (tenant, kind, id, version, place) > (:after_tenant, :after_kind, :after_id, :after_version, :after_place) --?
ORDER BY tenant, kind, id, version, place LIMIT :limit;

-- newest_effects: effects from the newest on; those of one source in the order of its versions, which is the same
SELECT @effect_columns
FROM betimes.effect
WHERE true
    AND status = 'dead' --? dead
    AND tenant = :tenant --?
    AND tenant = :source_tenant --?
    AND kind = :source_kind --?
    AND id = :source_id --?
    AND version = :version --?
    AND executor = :executor --?
    AND status = :status --?
    AND created_at <= :after_created_at --?
    AND (created_at, tenant, kind, id, version, place) < (:after_created_at, :after_tenant, :after_kind, :after_id, :after_version, :after_place) --?
    AND (version, place) < (:after_version, :after_place) --? same_source
ORDER BY created_at DESC, tenant DESC, kind DESC, id DESC, version DESC, place DESC --? any_source
ORDER BY version DESC, place DESC --? source_id
LIMIT :limit;

-- oldest_effects: effects of one tenant and status from the oldest on
SELECT @effect_columns
FROM betimes.effect
WHERE tenant = :tenant
    AND status = 'dead' --? dead
    AND status = :status --?
    AND executor = :executor --?
    AND created_at >= :after_created_at --?
    AND (created_at, kind, id, version, place) > (:after_created_at, :after_kind, :after_id, :after_version, :after_place) --?
ORDER BY created_at, kind, id, version, place LIMIT :limit;
