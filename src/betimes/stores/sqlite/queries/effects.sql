-- history_with_room: The attempts that are kept when one more is added; none if they cannot be read.
iif(NOT json_valid(history), '[]', iif(json_array_length(history) < 20, history, json_remove(history, '$[0]')));

-- insert_effects: New effects, not yet attempted or leased for their first attempt.
INSERT OR ROLLBACK INTO effect (
    tenant, kind, id, version, place, executor, status, attempts, fence, payload, created_at, next_attempt_at,
    at_most_once, attempts_max, leased_for_s, to_tenant, to_kind, to_id
)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- first_sends: The oldest sends of each source asked about, up to a number.
SELECT json_group_array(json_array(e.tenant, e.kind, e.id, e.version, e.place))
FROM (VALUES /* rows */ (?, ?, ?)) AS asked
CROSS JOIN effect AS e ON e.n IN (
    SELECT n FROM effect
    WHERE executor = 'send' AND status = 'pending'
    AND tenant = asked.column1 AND kind = asked.column2 AND id = asked.column3
    ORDER BY version, place LIMIT ?
);

-- waiting_sends: The oldest sends that nobody has applied; of one tenant they are few enough to be sorted.
SELECT json_group_array(json_array(
    tenant, kind, id, version, place, to_tenant, to_kind, to_id, payload, created_at
))
FROM (
    SELECT * FROM effect
    INDEXED BY effect_send --? tenant
    WHERE executor = 'send' AND status = 'pending'
    AND created_at < :created_before --? all
    AND tenant = :tenant AND +created_at < :created_before --? tenant
    AND to_kind IN (SELECT value FROM json_each(:kinds)) --? kinds
    AND @not_held --? held
    AND (created_at, tenant, kind, id, version, place) > (:created_at_after, :tenant_after, :kind_after, :id_after, :version_after, :place_after) --? id_after
    ORDER BY created_at, tenant, kind, id, version, place LIMIT :limit
);

-- delete_sends: Sends that were applied; one that is gone is missing from the count.
DELETE FROM effect WHERE executor = 'send' AND status = 'pending'
AND (tenant, kind, id, version, place) IN (VALUES /* rows */ (?, ?, ?, ?, ?));

-- bury_sends: Sends that cannot be applied become dead letters; one that is gone is missing from the count.
UPDATE OR ROLLBACK effect SET status = 'dead', next_attempt_at = NULL, finished_at = w.column6, last_error = w.column7,
    history = json_insert(@history_with_room, '$[#]', json_array(w.column6, 0, w.column7, NULL))
FROM (VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?)) AS w
WHERE effect.tenant = w.column1 AND effect.kind = w.column2 AND effect.id = w.column3
    AND effect.version = w.column4 AND effect.place = w.column5
    AND effect.executor = 'send' AND effect.status = 'pending';

-- settle_effects: How attempts ended; one whose lease was lost is missing from the count.
UPDATE OR ROLLBACK effect SET status = w.column7, next_attempt_at = w.column8, finished_at = w.column9, last_error = w.column10,
    history = json_insert(
        @history_with_room, '$[#]', json_array(w.column11, w.column7 = 'done', w.column10, w.column12)
    )
FROM (VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS w
WHERE effect.tenant = w.column1 AND effect.kind = w.column2 AND effect.id = w.column3
    AND effect.version = w.column4 AND effect.place = w.column5
    AND effect.fence = w.column6 AND effect.status = 'leased';

-- due_calls: Calls to take for these executors, oldest first; spent ones may not be called again.
SELECT json_group_array(json_array(
    n, tenant, kind, id, version, place, executor, payload, attempts, created_at, fence, leased_for_s, at_most_once,
    attempts_max, to_tenant, to_kind, to_id, status = 'leased' AND (at_most_once OR attempts >= attempts_max)
))
FROM (
    SELECT c.* FROM json_each(:executors) AS x CROSS JOIN effect AS c ON c.n IN (
        SELECT n FROM effect
        WHERE executor = x.value AND status IN ('pending', 'leased') AND next_attempt_at <= :now
        AND @not_held --? held
        ORDER BY next_attempt_at, tenant, kind, id, version, place LIMIT :limit
    )
    ORDER BY c.next_attempt_at, c.tenant, c.kind, c.id, c.version, c.place LIMIT :limit
);

-- calls_in_shares: The same of some tenants, of each at most its share.
SELECT json_group_array(json_array(
    n, tenant, kind, id, version, place, executor, payload, attempts, created_at, fence, leased_for_s, at_most_once,
    attempts_max, to_tenant, to_kind, to_id, status = 'leased' AND (at_most_once OR attempts >= attempts_max)
))
FROM (
    SELECT c.* FROM (
        SELECT p.n, t.value ->> 1 AS share, row_number() OVER (
            PARTITION BY p.tenant ORDER BY p.next_attempt_at, p.kind, p.id, p.version, p.place
        ) AS nth
        FROM json_each(:shares) AS t CROSS JOIN json_each(:executors) AS x CROSS JOIN effect AS p ON p.n IN (
            SELECT n FROM effect
            WHERE tenant = t.value ->> 0 AND executor = x.value AND executor <> 'send'
            AND status IN ('pending', 'leased') AND next_attempt_at <= :now
            AND @not_held --? held
            ORDER BY next_attempt_at, kind, id, version, place LIMIT :share_max
        )
    ) AS picked
    CROSS JOIN effect AS c ON c.n = picked.n
    WHERE picked.nth <= picked.share
    ORDER BY c.next_attempt_at, c.tenant, c.kind, c.id, c.version, c.place LIMIT :limit
);

-- tenants_with_calls: The next tenants that have open calls, and whether one for these executors is due.
WITH RECURSIVE looked_at (tenant, nth) AS (
    SELECT min(tenant), 1 FROM effect
    WHERE tenant > :after AND executor <> 'send' AND status IN ('pending', 'leased')
    UNION ALL
    SELECT (
        SELECT min(e.tenant) FROM effect AS e
        WHERE e.tenant > looked_at.tenant AND e.executor <> 'send' AND e.status IN ('pending', 'leased')
    ), nth + 1
    FROM looked_at WHERE tenant IS NOT NULL AND nth < :limit
)
SELECT json_group_array(json_array(tenant, EXISTS (
    SELECT 1 FROM json_each(:names) AS x
    CROSS JOIN effect AS e ON e.tenant = looked_at.tenant AND e.executor = x.value AND e.executor <> 'send'
        AND e.status IN ('pending', 'leased') AND e.next_attempt_at <= :now
    WHERE @not_held --? held
)))
FROM looked_at WHERE tenant IS NOT NULL;

-- lease_calls: Take calls under a new fence; an attempt is counted unless the call is spent.
UPDATE effect SET
    attempts = attempts + NOT (status = 'leased' AND (at_most_once OR attempts >= attempts_max)),
    status = 'leased',
    fence = fence + 1,
    history = iif(
        status = 'leased' AND NOT (at_most_once OR attempts >= attempts_max),
        json_insert(@history_with_room, '$[#]', json_array(:now, 0, :ran_out, NULL)), history
    ),
    next_attempt_at = :now + leased_for_s * 1000000
WHERE n IN (SELECT value FROM json_each(:calls));

-- renew_lease: Extend a lease that is still held.
UPDATE effect SET next_attempt_at = :now + leased_for_s * 1000000
WHERE tenant = :tenant AND kind = :kind AND id = :id AND version = :version AND place = :place
    AND fence = :fence AND status = 'leased';

-- revive_effect: Give a dead letter fresh attempts.
UPDATE effect SET status = 'pending', attempts = 0, next_attempt_at = :now, finished_at = NULL
WHERE tenant = :tenant AND kind = :kind AND id = :id AND version = :version AND place = :place AND status = 'dead';

-- discard_effect: Remove a dead letter.
DELETE FROM effect
WHERE tenant = :tenant AND kind = :kind AND id = :id AND version = :version AND place = :place AND status = 'dead';

-- effect_columns: An effect as it is listed.
json_array(
    tenant, kind, id, version, place, executor, payload, status, attempts, created_at, next_attempt_at, finished_at,
    last_error, at_most_once, to_tenant, to_kind, to_id, history
);

-- effects: Effects in order of their names.
SELECT json_group_array(@effect_columns) FROM (
    SELECT * FROM effect WHERE TRUE
    AND tenant = :tenant --? tenant
    AND tenant = :tenant_source AND kind = :kind_source AND id = :id_source --? id_source
    AND version = :version --? version
    AND +executor = :executor --? executor
    AND +status = :status --? status
    AND (tenant, kind, id, version, place) > (:tenant_after, :kind_after, :id_after, :version_after, :place_after) --? id_after
    AND (kind, id, version, place) > (:kind_after, :id_after, :version_after, :place_after) --? same_tenant
    AND (version, place) > (:version_after, :place_after) --? same_source
    ORDER BY tenant, kind, id, version, place LIMIT :limit
);

-- effects_newest: Effects from the newest on; those of one source in the order of its versions, which is the same.
SELECT json_group_array(@effect_columns) FROM (
    SELECT * FROM effect WHERE TRUE
    AND tenant = :tenant --? tenant
    AND tenant = :tenant_source AND kind = :kind_source AND id = :id_source --? id_source
    AND version = :version --? version
    AND status = 'dead' --? dead
    AND +executor = :executor --? executor
    AND +status = :status --? status
    AND (created_at, tenant, kind, id, version, place) < (:created_at_after, :tenant_after, :kind_after, :id_after, :version_after, :place_after) --? other_tenant
    AND (created_at, kind, id, version, place) < (:created_at_after, :kind_after, :id_after, :version_after, :place_after) --? same_tenant
    AND (version, place) < (:version_after, :place_after) --? same_source
    ORDER BY created_at DESC, tenant DESC, kind DESC, id DESC, version DESC, place DESC --? any_source
    ORDER BY version DESC, place DESC --? id_source
    LIMIT :limit
);

-- effects_oldest: Effects of one tenant and status from the oldest on.
SELECT json_group_array(@effect_columns) FROM (
    SELECT * FROM effect
    INDEXED BY effect_dead --? dead
    WHERE tenant = :tenant
    AND status = 'dead' --? dead
    AND +status = :status --? other_status
    AND +executor = :executor --? executor
    AND (created_at, kind, id, version, place) > (:created_at_after, :kind_after, :id_after, :version_after, :place_after) --? id_after
    ORDER BY created_at, kind, id, version, place LIMIT :limit
);

-- forget_effects: Remove effects that ended long ago; dead letters stay.
DELETE FROM effect WHERE n IN (
    SELECT n FROM effect
    WHERE status IN ('done', 'failed') AND finished_at < :before_at AND finished_at IS NOT NULL LIMIT :limit
);

-- effect_backlog: How many effects are owed, and how many are dead letters.
SELECT json_array(
    (SELECT count(*) FROM effect WHERE status IN ('pending', 'leased')),
    (SELECT count(*) FROM effect WHERE status = 'dead' AND finished_at IS NOT NULL)
);

-- orphaned_calls: Calls nobody has taken since an instant, by executor.
SELECT json_group_object(executor, calls) FROM (
    SELECT executor, count(*) AS calls FROM effect
    WHERE status IN ('pending', 'leased') AND next_attempt_at <= :since_at AND executor <> 'send'
    AND @not_held --? held
    GROUP BY executor
);
