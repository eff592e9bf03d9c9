-- Statements of the read model, in the same form as in `queries.sql`.

-- tally_source: segments after a position, as far as they are counted
SELECT seq, tenant, kind, at, schema, CASE WHEN kind <> ALL (:by_events::text[]) THEN verdict END AS verdict,
    CASE WHEN kind = ANY (:by_events::text[]) AND turn <> 'checkpoint' THEN events END AS events
FROM betimes.ledger WHERE seq <= :settled AND seq > :after ORDER BY seq LIMIT :limit;

-- tally_position: how far the ledger was counted, who counts, and from when on minutes and hours are kept
SELECT seq, at, holder, lease_until, minutes_from, hours_from FROM betimes.tally_position;

-- take_tally: the lease on the tally, unless somebody else has it
UPDATE betimes.tally_position SET holder = :holder, lease_until = betimes.clock(:now) + :lease
WHERE n = 1 AND (holder = :holder OR lease_until <= betimes.clock(:now))
RETURNING seq, at, holder, lease_until, minutes_from, hours_from;

-- add_tally: counts on top of those that are there, and another position, for whoever holds the lease and left it there
WITH moved AS (
    UPDATE betimes.tally_position
    SET seq = :upto, at = greatest(at, :at::bigint), lease_until = betimes.clock(:now) + :lease
    WHERE n = 1 AND holder = :holder AND seq = :after
    RETURNING true
), added AS (
    INSERT INTO betimes.tally AS t (level, tenant, at, kind, outcome, reasons, count, first_seq, last_seq)
    SELECT e.* FROM unnest(
        :levels::bigint[], :tenants::text[], :ats::bigint[], :kinds::text[], :outcomes::text[], :reasons::text[],
        :counts::bigint[], :firsts::bigint[], :lasts::bigint[]
    ) e
    WHERE EXISTS (SELECT FROM moved)
    ON CONFLICT (level, tenant, at, kind, outcome, reasons) DO UPDATE SET
        count = t.count + excluded.count, first_seq = least(t.first_seq, excluded.first_seq),
        last_seq = greatest(t.last_seq, excluded.last_seq)
)
SELECT true FROM moved;

-- trim_tally: counts that are no longer kept
WITH kept AS (
    UPDATE betimes.tally_position
    SET minutes_from = greatest(minutes_from, :minutes_from), hours_from = greatest(hours_from, :hours_from)
    WHERE n = 1 AND (minutes_from < :minutes_from OR hours_from < :hours_from)
), minutes AS (
    DELETE FROM betimes.tally t USING (
        SELECT level, tenant, at, kind, outcome, reasons FROM betimes.tally
        WHERE level = 60000000 AND at + 0 < :minutes_from ORDER BY at + 0 LIMIT :limit
    ) o
    WHERE t.level = o.level AND t.tenant = o.tenant AND t.at = o.at AND t.kind = o.kind AND t.outcome = o.outcome
        AND t.reasons = o.reasons
    RETURNING true
), hours AS (
    DELETE FROM betimes.tally t USING (
        SELECT level, tenant, at, kind, outcome, reasons FROM betimes.tally
        WHERE level = 3600000000 AND at + 0 < :hours_from ORDER BY at + 0 LIMIT :limit
    ) o
    WHERE t.level = o.level AND t.tenant = o.tenant AND t.at = o.at AND t.kind = o.kind AND t.outcome = o.outcome
        AND t.reasons = o.reasons
    RETURNING true
)
SELECT (SELECT count(*) FROM minutes) + (SELECT count(*) FROM hours);

-- reset_tally: no counts, and the beginning of the ledger for whoever comes next
-- (two statements: what was being added while the first waited for the position is seen by the second only)
DO $$
BEGIN
    UPDATE betimes.tally_position
    SET seq = 0, at = 0, holder = '', lease_until = 0, minutes_from = 0, hours_from = 0 WHERE n = 1;
    DELETE FROM betimes.tally;
END
$$;

-- tally_counts: sums by steps, kind, outcome and, if asked for, reasons
SELECT (at - :since_at) / :step AS number, kind, outcome,
    reasons, --? by_reasons
    '' AS reasons, --? any_reasons
    sum(count)::bigint AS many
FROM betimes.tally
WHERE level = :level AND tenant = :tenant AND at >= :since_at AND at < :until_at
    AND kind = ANY (:kinds) --?
    AND outcome = ANY (:outcomes) --?
    AND strpos(',' || reasons || ',', ',' || :reason || ',') > 0 --?
GROUP BY 1, 2, 3, 4 LIMIT :limit;

-- tally_ranges: where in the ledger the counts of each minute, hour or day lie, the latest first
SELECT at, min(first_seq), max(last_seq), sum(count)::bigint, array_agg(DISTINCT kind) FROM betimes.tally
WHERE level = :level AND tenant = :tenant AND at >= :since_at AND at < :until_at AND first_seq < :before_seq
    AND kind = ANY (:kinds) --?
    AND outcome = ANY (:outcomes) --?
    AND strpos(',' || reasons || ',', ',' || :reason || ',') > 0 --?
GROUP BY at ORDER BY at DESC LIMIT :limit;

-- segments_within: segments of one tenant in ranges of positions, of one kind in each, the last one first
SELECT l.*
FROM unnest(:kinds::text[], :firsts::bigint[], :lasts::bigint[]) AS r (kind, first, last)
CROSS JOIN LATERAL (
    SELECT @segment_columns FROM betimes.ledger
    WHERE tenant = :tenant AND kind = r.kind COLLATE "C" AND seq + 0 <= :settled
        AND seq + 0 >= r.first AND seq + 0 <= r.last
    ORDER BY seq + 0 DESC LIMIT :limit
) l
ORDER BY l.seq DESC LIMIT :limit;

-- upcoming: alarms of a tenant by kind and step
SELECT kind, (wake_at - :since_at) / :step AS number, count(*) AS many, min(wake_at) AS first_at FROM (
    SELECT kind, wake_at FROM betimes.stream
    WHERE tenant = :tenant AND wake_at >= :since_at AND wake_at < :until_at AND wake_at IS NOT NULL
        AND hashtext(id) & 15 = 0 --? sampled
    ORDER BY wake_at LIMIT :limit
) s
GROUP BY 1, 2;

-- upcoming_due: streams of a tenant and kind by the step in which they are due
SELECT :due_kind::text, (due_at - :since_at) / :step AS number, count(*) AS many, min(due_at) AS first_at FROM (
    SELECT due_at FROM betimes.stream
    WHERE tenant = :tenant AND kind = :due_kind AND due_at >= :since_at AND due_at < :until_at AND due_at IS NOT NULL
        AND owner <> '' AND hashtext(id) & 15 = 0 --? sampled
    ORDER BY due_at LIMIT :limit
) s
GROUP BY 2;

-- upcoming_streams: streams of a tenant in the order of their alarms
SELECT tenant, kind, id, version, schema, state, at, alarm_at, status, owner, due_at, digest, snooze_until, created_at,
    listed_at, CASE WHEN snooze_until IS NOT NULL THEN snooze_error END
FROM betimes.stream
WHERE tenant = :tenant AND wake_at >= :since_at AND wake_at < :until_at AND wake_at IS NOT NULL AND version > 0
    AND (wake_at, kind, id) > (:after_at, :after_kind, :after_id) --?
ORDER BY wake_at, kind, id LIMIT :limit;

-- snoozed_streams: streams of a tenant whose wakes rest, in the order of their names
SELECT tenant, kind, id, version, schema, state, at, alarm_at, status, owner, due_at, digest, snooze_until, created_at,
    listed_at, CASE WHEN snooze_until IS NOT NULL THEN snooze_error END
FROM betimes.stream
WHERE tenant = :tenant AND snooze_until IS NOT NULL AND version > 0
    AND (kind, id) > (:after_kind, :after_id) --?
ORDER BY kind, id LIMIT :limit;

-- names_like: streams whose ids begin with a text, the first of each kind
SELECT s.kind, s.id, s.status
FROM unnest(:kinds::text[]) k
CROSS JOIN LATERAL (
    SELECT kind, id, status FROM betimes.stream
    WHERE tenant = :tenant AND kind = k AND id >= :prefix AND id < :prefix_end AND state IS NOT NULL
    ORDER BY id LIMIT :limit
) s
ORDER BY s.kind, s.id;

-- keys_like: keys that begin with a text, the first of each collection; those that expired are walked past, up to a bound
SELECT u.collection, u.key, u.kind, u.id, u.version
FROM unnest(:collections::text[]) c
CROSS JOIN LATERAL (
    SELECT l.* FROM (
        SELECT * FROM betimes.key
        WHERE tenant = :tenant AND collection = c AND key >= :prefix AND key < :prefix_end
        ORDER BY key LIMIT :looked_at
    ) l
    WHERE l.version > 0 AND l.expires_at > betimes.clock(:now)
    ORDER BY l.key LIMIT :limit
) u
ORDER BY u.collection, u.key;

-- tenant_backlog: what is owed to a tenant; every count stops at the limit
WITH instant AS MATERIALIZED (SELECT betimes.clock(:now) AS now)
SELECT
    (
        SELECT count(*) FROM (
            SELECT FROM betimes.stream
            WHERE tenant = :tenant AND wake_at <= (SELECT now FROM instant) AND wake_at IS NOT NULL
            ORDER BY wake_at LIMIT :limit
        ) due
    ),
    (
        SELECT wake_at FROM betimes.stream
        WHERE tenant = :tenant AND wake_at <= (SELECT now FROM instant) AND wake_at IS NOT NULL
        ORDER BY wake_at LIMIT 1
    ),
    (
        SELECT count(*) FROM (
            SELECT FROM betimes.stream WHERE tenant = :tenant AND snooze_until IS NOT NULL
                AND snooze_until > (SELECT now FROM instant) ORDER BY kind, id LIMIT :limit
        ) snoozed
    ),
    (
        SELECT count(*) FROM (
            SELECT FROM betimes.effect
            WHERE tenant = :tenant AND executor <> 'send' AND status IN ('pending', 'leased') LIMIT :limit
        ) calls
    ) + (
        SELECT count(*) FROM (
            SELECT FROM betimes.effect
            WHERE tenant = :tenant AND executor = 'send' AND status = 'pending' LIMIT :limit
        ) sends
    ),
    (SELECT count(*) FROM (SELECT FROM betimes.effect WHERE tenant = :tenant AND status = 'dead' LIMIT :limit) dead),
    (
        SELECT count(*) FROM (
            SELECT last_error FROM betimes.effect
            WHERE tenant = :tenant AND executor <> 'send' AND status IN ('pending', 'leased') LIMIT :limit
        ) calls
        WHERE last_error <> ''
    ),
    (
        SELECT coalesce(json_object_agg(executor, by_kind), '{}')::text FROM (
            SELECT executor, json_object_agg(kind, many) AS by_kind FROM (
                SELECT executor, kind, count(*) AS many FROM (
                    SELECT executor, kind FROM betimes.effect
                    WHERE tenant = :tenant AND executor <> 'send' AND status IN ('pending', 'leased')
                        AND next_attempt_at <= (SELECT now FROM instant) - 60000000
                        AND (tenant || '/' || kind) <> ALL (:held::text[]) --?
                    LIMIT :limit
                ) late
                GROUP BY executor, kind
            ) counts
            GROUP BY executor
        ) executors
    );

-- executor_backlog: effects of a tenant that have not ended, by executor and kind; from each name the next is looked up
WITH RECURSIVE name AS (
    (
        SELECT executor FROM betimes.effect
        WHERE tenant = :tenant AND executor <> 'send' AND status IN ('pending', 'leased')
        ORDER BY executor LIMIT 1
    )
    UNION ALL
    SELECT next.executor FROM name CROSS JOIN LATERAL (
        SELECT e.executor FROM betimes.effect e
        WHERE e.tenant = :tenant AND e.executor > name.executor AND e.executor <> 'send'
            AND e.status IN ('pending', 'leased')
        ORDER BY e.executor LIMIT 1
    ) next
), bounded AS (
    SELECT executor FROM name LIMIT :executors_max
), calls AS (
    SELECT bounded.executor, counted.* FROM bounded CROSS JOIN LATERAL (
        SELECT kind, count(*) AS many, min(next_attempt_at) AS first_at FROM (
            SELECT e.kind, e.next_attempt_at FROM betimes.effect e
            WHERE e.tenant = :tenant AND e.executor = bounded.executor AND e.executor <> 'send'
                AND e.status IN ('pending', 'leased')
            ORDER BY e.next_attempt_at LIMIT :limit
        ) first
        GROUP BY kind
    ) counted
), sends AS (
    SELECT 'send', kind, count(*), NULL::bigint FROM (
        SELECT kind FROM betimes.effect
        WHERE tenant = :tenant AND executor = 'send' AND status = 'pending' LIMIT :limit
    ) waiting
    GROUP BY kind
), ranked AS (
    SELECT *, dense_rank() OVER (ORDER BY executor COLLATE "C") AS place
    FROM (SELECT * FROM calls UNION ALL SELECT * FROM sends) found
)
SELECT executor, kind, many, first_at FROM ranked
WHERE place <= :executors_max
ORDER BY executor COLLATE "C", kind COLLATE "C";

-- add_alarm_lags: alarms that rang, on top of those that are there, and no hours from before an instant
WITH forgotten AS (
    DELETE FROM betimes.alarm_lag WHERE at + 0 < :forget_before
)
INSERT INTO betimes.alarm_lag AS t (tenant, at, bound, count, most)
SELECT e.* FROM unnest(
    :tenants::text[], :ats::bigint[], :bounds::bigint[], :counts::bigint[], :mosts::bigint[]
) e
ON CONFLICT (tenant, at, bound) DO UPDATE SET count = t.count + excluded.count, most = greatest(t.most, excluded.most);

-- alarm_lags: how late the alarms of a tenant rang, by hour and bound
SELECT tenant, at, bound, count, most FROM betimes.alarm_lag
WHERE tenant = :tenant AND at >= :since_at AND at < :until_at ORDER BY at, bound;

-- beat: a process that is alive, and no more those that were last seen long ago
WITH forgotten AS (
    DELETE FROM betimes.process WHERE seen_at < :forget_before AND name <> :told_name
)
INSERT INTO betimes.process AS p (name, role, version, executors, started_at, seen_at)
VALUES (:told_name, :told_role, :told_version, :told_executors, :told_started_at, :told_seen_at)
ON CONFLICT (name) DO UPDATE SET role = excluded.role, version = excluded.version, executors = excluded.executors,
    started_at = excluded.started_at, seen_at = excluded.seen_at;

-- processes: those that are known, the last seen first
SELECT name, role, version, executors, started_at, seen_at FROM betimes.process ORDER BY seen_at DESC, name LIMIT :limit;
