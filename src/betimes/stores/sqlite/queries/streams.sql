-- find_streams: Streams by their place in the question: what indexes hold of them, and the rest if they moved.
SELECT json_group_array(json_array(
    asked.column1, s.n, s.version, s.owner, s.due_at, s.alarm_at, s.snooze_until, s.listed_at, s.status,
    CASE WHEN s.version <> asked.column5 THEN json_array(s.schema, s.state, s.at, s.digest) END
))
FROM (VALUES /* rows */ (?, ?, ?, ?, ?)) AS asked
CROSS JOIN stream AS s ON s.tenant = asked.column2 AND s.kind = asked.column3 AND s.id = asked.column4;

-- insert_streams: Streams that were never written; one that exists already is missing from the count.
INSERT OR IGNORE INTO stream (
    tenant, kind, id, version, schema, owner, status, created_at, at, alarm_at, due_at, listed_at, digest, state
)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- update_streams: What every write changes and no index holds; one that moved is missing from the count.
UPDATE OR ROLLBACK stream SET version = w.column3, schema = w.column4, at = w.column5, digest = w.column6, state = w.column7
FROM (VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?)) AS w
WHERE stream.n = w.column1 AND stream.version = w.column2;

-- reschedule_streams: Streams that moved by one version and of which only the index of what is due changes, as in a pass.
UPDATE OR ROLLBACK stream SET schema = ?1, at = ?2, version = w.column2 + 1, digest = w.column3, state = w.column4,
    due_at = w.column5
FROM (VALUES /* rows */ (?, ?, ?, ?, ?)) AS w
WHERE stream.n = w.column1 AND stream.version = w.column2;

-- ring_streams: The same for streams of which only the alarm changes, as by their wakes; any snooze ends.
UPDATE OR ROLLBACK stream SET schema = ?1, at = ?2, version = w.column2 + 1, digest = w.column3, state = w.column4,
    alarm_at = w.column5, snooze_until = NULL
FROM (VALUES /* rows */ (?, ?, ?, ?, ?)) AS w
WHERE stream.n = w.column1 AND stream.version = w.column2;

-- settle_streams: The same for streams of which only the status changes, as by the end of a run.
UPDATE OR ROLLBACK stream SET schema = ?1, at = ?2, version = w.column2 + 1, digest = w.column3, state = w.column4,
    status = w.column5
FROM (VALUES /* rows */ (?, ?, ?, ?, ?)) AS w
WHERE stream.n = w.column1 AND stream.version = w.column2;

-- move_alarms: New alarms of streams already updated; any snooze ends.
UPDATE OR ROLLBACK stream SET alarm_at = w.column2, snooze_until = NULL
FROM (VALUES /* rows */ (?, ?)) AS w
WHERE stream.n = w.column1;

-- relist_streams: By what streams already updated are now listed and claimed.
UPDATE OR ROLLBACK stream SET owner = w.column2, due_at = w.column3, listed_at = w.column4
FROM (VALUES /* rows */ (?, ?, ?, ?)) AS w
WHERE stream.n = w.column1;

-- restatus_streams: Another status of streams already updated.
UPDATE OR ROLLBACK stream SET status = w.column2
FROM (VALUES /* rows */ (?, ?)) AS w
WHERE stream.n = w.column1;

-- not_held: Of a stream, or of the source of an effect: it may fire.
tenant || '/' || kind NOT IN (SELECT value FROM json_each(:held));

-- picked_columns: A stream that is due: its name, its row, and what the indexes hold of it.
json_array(
    json_array(tenant, kind, id), json_array(version, schema, state, at, alarm_at, digest),
    json_array(n, version, owner, due_at, alarm_at, snooze_until, listed_at, status)
);

-- due_alarms: Streams whose alarm is due, oldest first; at most so many of each kind are looked at.
SELECT json_group_array(@picked_columns) FROM (
    SELECT s.* FROM json_each(:kinds) AS k CROSS JOIN stream AS s ON s.n IN (
        SELECT n FROM stream
        WHERE kind = k.value AND wake_at <= :until
        AND @not_held --? held
        ORDER BY wake_at, tenant, id LIMIT :limit
    )
    ORDER BY s.wake_at, s.tenant, s.kind, s.id LIMIT :limit
);

-- due_streams: Streams that are due for a claim or a sweep, oldest first.
SELECT json_group_array(@picked_columns) FROM (
    SELECT s.* FROM json_each(:kinds) AS k CROSS JOIN stream AS s ON s.n IN (
        SELECT n FROM stream
        WHERE kind = k.value AND due_at <= :until
        AND tenant = :tenant --? tenant
        AND @not_held --? held
        ORDER BY due_at, tenant, id LIMIT :limit
    )
    ORDER BY s.due_at, s.tenant, s.kind, s.id LIMIT :limit
);

-- due_nearby: Of so many of the oldest that are due, those that lie next behind a row, and then from the first row on.
SELECT json_group_array(@picked_columns) FROM (
    SELECT s.* FROM json_each(:kinds) AS k CROSS JOIN stream AS s ON s.n IN (
        SELECT n FROM (
            SELECT n FROM stream
            WHERE kind = k.value AND due_at <= :until
            AND tenant = :tenant --? tenant
            AND @not_held --? held
            ORDER BY due_at, tenant, id LIMIT :oldest
        )
        ORDER BY n <= :behind, n LIMIT :limit
    )
    ORDER BY s.n <= :behind, s.n LIMIT :limit
);

-- alarms_in_shares: Streams of some tenants whose alarm is due, the oldest of each first, of each at most its share.
SELECT json_group_array(@picked_columns) FROM (
    SELECT s.* FROM (
        SELECT p.n, t.value ->> 1 AS share, row_number() OVER (
            PARTITION BY p.tenant ORDER BY p.wake_at, p.kind, p.id
        ) AS nth
        FROM json_each(:shares) AS t CROSS JOIN stream AS p ON p.n IN (
            SELECT n FROM stream
            WHERE tenant = t.value ->> 0 AND wake_at <= :until AND kind IN (SELECT value FROM json_each(:kinds))
            AND @not_held --? held
            ORDER BY wake_at, kind, id LIMIT :share_max
        )
    ) AS picked
    CROSS JOIN stream AS s ON s.n = picked.n
    WHERE picked.nth <= picked.share
    ORDER BY picked.nth, s.wake_at, s.tenant, s.kind, s.id LIMIT :limit
);

-- due_in_shares: The same for streams that are due for a claim or a sweep.
SELECT json_group_array(@picked_columns) FROM (
    SELECT s.* FROM (
        SELECT p.n, t.value ->> 1 AS share, row_number() OVER (
            PARTITION BY p.tenant ORDER BY p.due_at, p.kind, p.id
        ) AS nth
        FROM json_each(:shares) AS t CROSS JOIN json_each(:kinds) AS k CROSS JOIN stream AS p ON p.n IN (
            SELECT n FROM stream
            WHERE tenant = t.value ->> 0 AND kind = k.value AND due_at <= :until
            AND @not_held --? held
            ORDER BY due_at, id LIMIT :share_max
        )
    ) AS picked
    CROSS JOIN stream AS s ON s.n = picked.n
    WHERE picked.nth <= picked.share
    ORDER BY picked.nth, s.due_at, s.tenant, s.kind, s.id LIMIT :limit
);

-- tenants_with_alarms: The next tenants that have alarms, and whether one of them is due.
WITH RECURSIVE looked_at (tenant, nth) AS (
    SELECT min(tenant), 1 FROM stream WHERE tenant > :after AND wake_at IS NOT NULL
    UNION ALL
    SELECT (SELECT min(s.tenant) FROM stream AS s WHERE s.tenant > looked_at.tenant AND s.wake_at IS NOT NULL), nth + 1
    FROM looked_at WHERE tenant IS NOT NULL AND nth < :limit
)
SELECT json_group_array(json_array(tenant, EXISTS (
    SELECT 1 FROM stream AS s
    WHERE s.tenant = looked_at.tenant AND s.wake_at <= :now AND s.kind IN (SELECT value FROM json_each(:names))
    AND @not_held --? held
)))
FROM looked_at WHERE tenant IS NOT NULL;

-- tenants_with_due: The next tenants that have anything to claim or sweep, and whether some of it is due.
WITH RECURSIVE looked_at (tenant, nth) AS (
    SELECT min(tenant), 1 FROM stream WHERE tenant > :after AND due_at IS NOT NULL
    UNION ALL
    SELECT (SELECT min(s.tenant) FROM stream AS s WHERE s.tenant > looked_at.tenant AND s.due_at IS NOT NULL), nth + 1
    FROM looked_at WHERE tenant IS NOT NULL AND nth < :limit
)
SELECT json_group_array(json_array(tenant, EXISTS (
    SELECT 1 FROM json_each(:names) AS k
    CROSS JOIN stream AS s ON s.tenant = looked_at.tenant AND s.kind = k.value AND s.due_at <= :now
    WHERE @not_held --? held
)))
FROM looked_at WHERE tenant IS NOT NULL;

-- row_number: Where a stream lies.
SELECT n FROM stream WHERE tenant = :tenant AND kind = :kind AND id = :id;

-- next_due: The earliest instant anything of these kinds, or for these executors, is due.
SELECT min(at) FROM (
    SELECT (
        SELECT wake_at FROM stream WHERE kind = k.value AND wake_at IS NOT NULL
        AND +tenant = :tenant --? tenant
        AND @not_held --? held
        ORDER BY wake_at LIMIT 1
    ) AS at
    FROM json_each(:kinds) AS k WHERE :index = 'alarm'
    UNION ALL
    SELECT (
        SELECT due_at FROM stream WHERE kind = k.value AND due_at IS NOT NULL
        AND tenant = :tenant --? tenant
        AND @not_held --? held
        ORDER BY due_at LIMIT 1
    )
    FROM json_each(:kinds) AS k WHERE :index = 'due'
    UNION ALL
    SELECT (
        SELECT next_attempt_at FROM effect
        WHERE executor = e.value AND status IN ('pending', 'leased') AND next_attempt_at IS NOT NULL
        AND tenant = :tenant AND executor <> 'send' --? tenant
        AND @not_held --? held
        ORDER BY next_attempt_at LIMIT 1
    )
    FROM json_each(:executors) AS e
);

-- snooze: Let a wake rest, unless the stream moved.
UPDATE stream SET snooze_until = :until, snoozed_because = :error
WHERE tenant = :tenant AND kind = :kind AND id = :id AND version = :version;

-- stream_columns: A stream as it is listed.
json_array(tenant, kind, id, version, schema, state, at, alarm_at, status, owner, due_at, digest, snooze_until,
    created_at, listed_at, snoozed_because);

-- narrowed: The streams that a list is about.
AND state IS NOT NULL --? existing
AND tenant = :tenant --? tenant
AND kind = :kind --? kind
AND owner = :owner AND owner <> '' --? owner
AND owner = '' --? no_owner
AND +status = :status --? status
AND +status IN (SELECT value FROM json_each(:among)) --? among
;

-- one_stream: One stream as it is listed.
SELECT json_group_array(@stream_columns) FROM stream WHERE tenant = :tenant AND kind = :kind AND id = :id;

-- streams_by_name: Streams in order of their names.
SELECT json_group_array(@stream_columns) FROM (
    SELECT * FROM stream WHERE TRUE
    @narrowed
    AND id >= :prefix AND id < :prefix_end --? prefix
    AND (tenant, kind, id) > (:tenant_after, :kind_after, :id_after) --? id_after
    AND (kind, id) > (:kind_after, :id_after) --? same_tenant
    AND id > :id_after --? same_kind
    ORDER BY tenant, kind, id LIMIT :limit
);

-- streams_of_owner: Streams of one owner in order of their names; they are few enough to be sorted.
SELECT json_group_array(@stream_columns) FROM (
    SELECT * FROM stream WHERE owner = :owner AND owner <> ''
    AND state IS NOT NULL --? existing
    AND tenant = :tenant --? tenant
    AND kind = :kind --? kind
    AND +status = :status --? status
    AND +status IN (SELECT value FROM json_each(:among)) --? among
    AND (+tenant, +kind, +id) > (:tenant_after, :kind_after, :id_after) --? id_after
    ORDER BY +tenant, +kind, +id LIMIT :limit
);

-- streams_newest: Streams from the last created on.
SELECT json_group_array(@stream_columns) FROM (
    SELECT * FROM stream WHERE TRUE
    @narrowed
    AND (created_at, tenant, kind, id) < (:created_at_after, :tenant_after, :kind_after, :id_after) --? other_kind
    AND (created_at, id) < (:created_at_after, :id_after) --? same_kind
    ORDER BY created_at DESC, tenant DESC, kind DESC, id DESC LIMIT :limit
);

-- streams_newest_among: The same of any of these statuses, each read along an index.
SELECT json_group_array(@stream_columns) FROM (
    SELECT s.* FROM json_each(:among) AS x CROSS JOIN stream AS s ON s.n IN (
        SELECT n FROM stream INDEXED BY stream_status
        WHERE tenant = :tenant AND kind = :kind AND status = x.value AND status <> ''
        AND state IS NOT NULL --? existing
        AND +owner = :owner --? owner
        AND +owner = '' --? no_owner
        AND +status = :status --? status
        AND (created_at, id) < (:created_at_after, :id_after) --? same_kind
        AND (created_at, tenant, kind, id) < (:created_at_after, :tenant_after, :kind_after, :id_after) --? other_kind
        ORDER BY created_at DESC, id DESC LIMIT :limit
    )
    ORDER BY s.created_at DESC, s.id DESC LIMIT :limit
);

-- streams_by_due_among: Streams with an owner that are due, of any of these statuses, each read along an index.
SELECT json_group_array(@stream_columns) FROM (
    SELECT s.* FROM json_each(:among) AS x CROSS JOIN stream AS s ON s.n IN (
        SELECT n FROM stream
        INDEXED BY stream_work --? any_tenant
        INDEXED BY stream_tenant_work --? tenant
        WHERE kind = :kind AND status = x.value AND due_at <= :due_before AND owner <> ''
        AND tenant = :tenant --? tenant
        AND state IS NOT NULL --? existing
        AND +owner = :owner --? owner
        AND +owner = '' --? no_owner
        AND +status = :status --? status
        AND due_at >= :due_at_after --? id_after
        AND (due_at, tenant, kind, id) > (:due_at_after, :tenant_after, :kind_after, :id_after) --? id_after
        ORDER BY due_at, tenant, id LIMIT :limit
    )
    ORDER BY s.due_at, s.tenant, s.kind, s.id LIMIT :limit
);

-- streams_by_due: Streams that are due at an instant, the longest due first.
SELECT json_group_array(@stream_columns) FROM (
    SELECT * FROM stream WHERE due_at <= :due_before
    AND state IS NOT NULL --? existing
    AND tenant = :tenant --? tenant
    AND kind = :kind --? kind
    AND owner = :owner --? owner
    AND owner = '' --? no_owner
    AND +status = :status --? status
    AND +status IN (SELECT value FROM json_each(:among)) AND +owner <> '' --? among
    AND due_at >= :due_at_after --? id_after
    AND (due_at, tenant, kind, id) > (:due_at_after, :tenant_after, :kind_after, :id_after) --? id_after
    ORDER BY due_at, tenant, kind, id LIMIT :limit
);

-- streams_by_listed: Streams that stand in a list by an instant, the earliest first.
SELECT json_group_array(@stream_columns) FROM (
    SELECT * FROM stream
    INDEXED BY stream_owner_listed --? by_owner_listed
    WHERE listed_at <= :listed_before
    @narrowed
    AND listed_at >= :listed_at_after --? id_after
    AND (listed_at, tenant, kind, id) > (:listed_at_after, :tenant_after, :kind_after, :id_after) --? id_after
    ORDER BY listed_at, tenant, kind, id LIMIT :limit
);

-- alarm_backlog: Of these kinds, how many alarms are due, the oldest of them, and how many streams are snoozed.
SELECT json_array(count(*), min(wake_at), (
    SELECT count(*) FROM stream
    WHERE kind IN (SELECT value FROM json_each(:kinds)) AND snooze_until > :now
))
FROM stream
WHERE kind IN (SELECT value FROM json_each(:kinds)) AND wake_at <= :now
AND @not_held --? held
;
