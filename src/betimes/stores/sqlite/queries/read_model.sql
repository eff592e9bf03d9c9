-- tally_source: Segments after a position, as far as they are counted: of verdicts what ends with the reasons.
SELECT json_group_array(json_array(
    seq, tenant, kind, at, schema, iif(by_events, NULL, substr(verdict, 1, instr(verdict, ']'))),
    iif(by_events AND turn <> 'checkpoint', events, NULL)
)) FROM (
    SELECT *, kind IN (SELECT value FROM json_each(:by_events)) AS by_events
    FROM ledger WHERE seq > :after ORDER BY seq LIMIT :limit
);

-- tally_position: How far the ledger was counted, who counts, and from when on minutes and hours are kept.
SELECT json_array(seq, at, holder, lease_until, minutes_from, hours_from) FROM tally_position;

-- take_tally: The lease on the tally, unless somebody else has it.
UPDATE tally_position SET holder = :holder, lease_until = :until WHERE holder = :holder OR lease_until <= :now;

-- move_tally: Another position, for whoever holds the lease and left it where it is.
UPDATE tally_position SET seq = :upto, at = max(at, :at), lease_until = :until
WHERE holder = :holder AND seq = :after;

-- add_tally: Counts on top of those that are there.
INSERT INTO tally (level, tenant, at, kind, outcome, reasons, count, first_seq, last_seq)
VALUES /* rows */ (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (level, tenant, at, kind, outcome, reasons) DO UPDATE SET
    count = count + excluded.count, first_seq = min(first_seq, excluded.first_seq),
    last_seq = max(last_seq, excluded.last_seq);

-- keep_tally_from: The instants from which on minutes and hours are kept.
UPDATE tally_position
SET minutes_from = max(minutes_from, :minutes_from), hours_from = max(hours_from, :hours_from)
WHERE minutes_from < :minutes_from OR hours_from < :hours_from;

-- trim_tally: Counts of a level that are no longer kept.
DELETE FROM tally WHERE (level, tenant, at, kind, outcome, reasons) IN (
    SELECT level, tenant, at, kind, outcome, reasons FROM tally INDEXED BY tally_age
    WHERE level = :level AND at < :kept_from ORDER BY at LIMIT :limit
);

-- empty_tally: No counts.
DELETE FROM tally;

-- reset_tally: The beginning of the ledger, for whoever comes next.
UPDATE tally_position SET seq = 0, at = 0, holder = '', lease_until = 0, minutes_from = 0, hours_from = 0;

-- tally_counts: Sums by steps, kind, outcome and, if asked for, reasons.
SELECT json_group_array(json_array(number, kind, outcome, reasons, many)) FROM (
    SELECT (at - :since_at) / :step AS number, kind, outcome, sum(count) AS many,
        reasons --? by_reasons
        '' AS reasons --? any_reasons
    FROM tally
    WHERE level = :level AND tenant = :tenant AND at >= :since_at AND at < :until_at
    AND kind IN (SELECT value FROM json_each(:kinds)) --? kinds
    AND outcome IN (SELECT value FROM json_each(:outcomes)) --? outcomes
    AND instr(',' || reasons || ',', ',' || :reason || ',') --? reason
    GROUP BY 1, 2, 3, 5 LIMIT :limit
);

-- tally_ranges: Where in the ledger the counts of each minute, hour or day lie, the latest first.
SELECT json_group_array(json_array(at, first_seq, last_seq, many, json(kinds))) FROM (
    SELECT at, min(first_seq) AS first_seq, max(last_seq) AS last_seq, sum(count) AS many,
        json_group_array(DISTINCT kind) AS kinds
    FROM tally
    WHERE level = :level AND tenant = :tenant AND at >= :since_at AND at < :until_at AND first_seq < :before_seq
    AND kind IN (SELECT value FROM json_each(:kinds)) --? kinds
    AND outcome IN (SELECT value FROM json_each(:outcomes)) --? outcomes
    AND instr(',' || reasons || ',', ',' || :reason || ',') --? reason
    GROUP BY at ORDER BY at DESC LIMIT :limit
);

-- segments_within: Segments of one tenant in ranges of positions, of one kind in each, the last one first.
SELECT json_group_array(@segment_columns) FROM (
    SELECT l.* FROM (
        SELECT l.seq AS n FROM json_each(:ranges) AS r CROSS JOIN ledger AS l ON l.seq IN (
            SELECT seq FROM ledger
            WHERE tenant = :tenant AND kind = r.value ->> 0 AND seq >= r.value ->> 1 AND seq <= r.value ->> 2
            ORDER BY seq DESC LIMIT :limit
        )
        ORDER BY n DESC LIMIT :limit
    ) AS page CROSS JOIN ledger AS l ON l.seq = page.n
    ORDER BY page.n DESC
) AS l;

-- upcoming: Alarms of a tenant by kind and step, counted along an index that holds all of it.
SELECT json_group_array(json_array(kind, number, many, first_at)) FROM (
    SELECT kind, (wake_at - :since_at) / :step AS number, count(*) AS many, min(wake_at) AS first_at FROM (
        SELECT kind, wake_at FROM stream
        INDEXED BY stream_tenant_alarm --? exact
        INDEXED BY stream_alarm_sample --? sampled
        WHERE tenant = :tenant AND wake_at >= :since_at AND wake_at < :until_at
        AND wake_at IS NOT NULL AND n % 16 = 0 --? sampled
        ORDER BY wake_at LIMIT :limit
    )
    GROUP BY 1, 2
);

-- upcoming_due: Streams of a tenant and kind by the step in which they are due.
SELECT json_group_array(json_array(:due_kind, number, many, first_at)) FROM (
    SELECT (due_at - :since_at) / :step AS number, count(*) AS many, min(due_at) AS first_at FROM (
        SELECT due_at FROM stream
        INDEXED BY stream_tenant_due --? exact
        INDEXED BY stream_due_sample --? sampled
        WHERE tenant = :tenant AND kind = :due_kind AND due_at >= :since_at AND due_at < :until_at
        AND due_at IS NOT NULL AND owner <> '' AND n % 16 = 0 --? sampled
        ORDER BY due_at LIMIT :limit
    )
    GROUP BY 1
);

-- upcoming_streams: Streams of a tenant in the order of their alarms; after one, from its instant on.
-- (Written as three columns in a row, the last condition is taken for the index's by SQLite once it has statistics, past
-- every tenant and with a sort of all that follows.)
SELECT json_group_array(@stream_columns) FROM (
    SELECT * FROM stream INDEXED BY stream_tenant_alarm
    WHERE tenant = :tenant AND wake_at >= :since_at AND wake_at < :until_at
    AND (wake_at > :at_after OR kind > :kind_after OR (kind = :kind_after AND id > :id_after)) --? id_after
    ORDER BY wake_at, kind, id LIMIT :limit
);

-- snoozed_streams: Streams of a tenant whose wakes rest, in the order of their names.
SELECT json_group_array(@stream_columns) FROM (
    SELECT * FROM stream INDEXED BY stream_tenant_snoozed
    WHERE tenant = :tenant AND snooze_until IS NOT NULL
    AND (kind, id) > (:kind_after, :id_after) --? id_after
    ORDER BY kind, id LIMIT :limit
);

-- names_like: Streams whose ids begin with a text, the first of each kind.
SELECT json_group_array(json_array(kind, id, status)) FROM (
    SELECT s.kind, s.id, s.status FROM json_each(:kinds) AS k CROSS JOIN stream AS s ON s.n IN (
        SELECT n FROM stream
        WHERE tenant = :tenant AND kind = k.value AND id >= :prefix AND id < :prefix_end AND state IS NOT NULL
        ORDER BY id LIMIT :limit
    )
    ORDER BY s.kind, s.id
);

-- keys_like: Keys that begin with a text, the first of each collection; those that expired are walked past, up to a bound.
SELECT json_group_array(json_array(collection, key, stream_kind, stream_id, version)) FROM (
    SELECT u.* FROM json_each(:collections) AS c CROSS JOIN key AS u ON u.rowid IN (
        SELECT n FROM (
            SELECT rowid AS n, expires_at FROM key
            WHERE tenant = :tenant AND collection = c.value AND key >= :prefix AND key < :prefix_end
            ORDER BY key LIMIT :looked_at
        )
        WHERE expires_at > :now LIMIT :limit
    )
    ORDER BY u.collection, u.key
);

-- tenant_backlog: What is owed to a tenant; every count stops at the limit.
SELECT json_array(
    (SELECT count(*) FROM (SELECT 1 FROM stream WHERE tenant = :tenant AND wake_at <= :now LIMIT :limit)),
    (SELECT min(wake_at) FROM stream INDEXED BY stream_tenant_alarm WHERE tenant = :tenant AND wake_at <= :now),
    (SELECT count(*) FROM (
        SELECT 1 FROM stream INDEXED BY stream_tenant_snoozed
        WHERE tenant = :tenant AND snooze_until IS NOT NULL AND +snooze_until > :now LIMIT :limit
    )),
    (SELECT count(*) FROM (
        SELECT 1 FROM effect
        WHERE tenant = :tenant AND executor <> 'send' AND status IN ('pending', 'leased') LIMIT :limit
    )) + (SELECT count(*) FROM (
        SELECT 1 FROM effect WHERE tenant = :tenant AND executor = 'send' AND status = 'pending' LIMIT :limit
    )),
    (SELECT count(*) FROM (SELECT 1 FROM effect WHERE tenant = :tenant AND status = 'dead' LIMIT :limit)),
    (SELECT count(*) FROM (
        SELECT last_error FROM effect
        WHERE tenant = :tenant AND executor <> 'send' AND status IN ('pending', 'leased') LIMIT :limit
    ) WHERE last_error <> ''),
    json((SELECT json_group_object(executor, json(by_kind)) FROM (
        SELECT executor, json_group_object(kind, late) AS by_kind FROM (
            SELECT executor, kind, count(*) AS late FROM (
                SELECT executor, kind FROM effect
                WHERE tenant = :tenant AND executor <> 'send' AND status IN ('pending', 'leased')
                AND next_attempt_at <= :late_since
                AND @not_held --? held
                LIMIT :limit
            ) GROUP BY executor, kind
        ) GROUP BY executor
    )))
);

-- executor_backlog: Effects of a tenant that have not ended, by executor and kind: from each name the next one is looked
-- up, so that the cost does not depend on how many wait behind the limit.
SELECT json_group_array(json_array(executor, json(by_kind))) FROM (
    WITH RECURSIVE name (executor) AS (
        SELECT min(executor) FROM effect INDEXED BY effect_tenant_open
        WHERE tenant = :tenant AND executor <> 'send' AND status IN ('pending', 'leased')
        UNION ALL
        SELECT (
            SELECT min(e.executor) FROM effect AS e INDEXED BY effect_tenant_open
            WHERE e.tenant = :tenant AND e.executor > name.executor AND e.executor <> 'send'
            AND e.status IN ('pending', 'leased')
        )
        FROM name WHERE name.executor IS NOT NULL LIMIT :executors_max
    )
    SELECT name.executor AS executor, (
        SELECT json_group_array(json_array(kind, many, first_at)) FROM (
            SELECT kind, count(*) AS many, min(next_attempt_at) AS first_at FROM (
                SELECT e.kind, e.next_attempt_at FROM effect AS e INDEXED BY effect_tenant_open
                WHERE e.tenant = :tenant AND e.executor = name.executor AND e.executor <> 'send'
                AND e.status IN ('pending', 'leased') ORDER BY e.next_attempt_at LIMIT :limit
            ) GROUP BY kind ORDER BY kind
        )
    ) AS by_kind
    FROM name WHERE name.executor IS NOT NULL
    UNION ALL
    SELECT 'send', by_kind FROM (
        SELECT json_group_array(json_array(kind, many, NULL)) AS by_kind FROM (
            SELECT kind, count(*) AS many FROM (
                SELECT kind FROM effect INDEXED BY effect_send
                WHERE tenant = :tenant AND executor = 'send' AND status = 'pending' LIMIT :limit
            ) GROUP BY kind ORDER BY kind
        )
    ) WHERE by_kind <> '[]'
    ORDER BY 1 LIMIT :executors_max
);

-- add_alarm_lags: Alarms that rang, on top of those that are there.
INSERT INTO alarm_lag (tenant, at, bound, count, most)
VALUES /* rows */ (?, ?, ?, ?, ?)
ON CONFLICT (tenant, at, bound) DO UPDATE SET count = count + excluded.count, most = max(most, excluded.most);

-- forget_alarm_lags: No hours from before an instant.
DELETE FROM alarm_lag WHERE at < :before_at;

-- alarm_lags: How late the alarms of a tenant rang, by hour and bound.
SELECT json_group_array(json_array(tenant, at, bound, count, most)) FROM (
    SELECT * FROM alarm_lag WHERE tenant = :tenant AND at >= :since_at AND at < :until_at ORDER BY at, bound
);

-- beat: A process that is alive.
INSERT INTO process (name, role, version, executors, started_at, seen_at)
VALUES (:name, :role, :version, :executors, :started_at, :seen_at)
ON CONFLICT (name) DO UPDATE SET role = excluded.role, version = excluded.version, executors = excluded.executors,
    started_at = excluded.started_at, seen_at = excluded.seen_at;

-- forget_processes: Those that were last seen long ago.
DELETE FROM process WHERE seen_at < :before_at;

-- processes: Those that are known, the last seen first.
SELECT json_group_array(json_array(name, role, version, json(executors), started_at, seen_at)) FROM (
    SELECT * FROM process ORDER BY seen_at DESC, name LIMIT :limit
);
