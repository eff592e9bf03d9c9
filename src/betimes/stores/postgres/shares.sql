-- Statements by which tenants take turns, written as in `queries.sql`: which have something due, and what to take of each.

-- tenants_with_alarms: the next tenants that have alarms, and whether one of them is due
WITH RECURSIVE looked_at AS (
    (
        SELECT s.tenant, 1 AS nth FROM betimes.stream s
        WHERE s.tenant > :after AND s.wake_at IS NOT NULL ORDER BY s.tenant LIMIT 1
    )
    UNION ALL
    SELECT n.tenant, l.nth + 1
    FROM looked_at l
    CROSS JOIN LATERAL (
        SELECT s.tenant FROM betimes.stream s
        WHERE s.tenant > l.tenant AND s.wake_at IS NOT NULL ORDER BY s.tenant LIMIT 1
    ) n
    WHERE l.nth < :limit::integer
)
SELECT l.tenant, EXISTS (
    SELECT FROM betimes.stream s
    WHERE s.tenant = l.tenant AND s.wake_at <= (SELECT betimes.clock(:now)) AND s.kind = ANY (:names)
    AND (s.tenant || '/' || s.kind) <> ALL (:held::text[]) --?
)
FROM looked_at l ORDER BY l.nth;

-- tenants_with_due: the next tenants that have anything to claim or sweep, and whether some of it is due
WITH RECURSIVE looked_at AS (
    (
        SELECT s.tenant, 1 AS nth FROM betimes.stream s
        WHERE s.tenant > :after AND s.due_at IS NOT NULL ORDER BY s.tenant LIMIT 1
    )
    UNION ALL
    SELECT n.tenant, l.nth + 1
    FROM looked_at l
    CROSS JOIN LATERAL (
        SELECT s.tenant FROM betimes.stream s
        WHERE s.tenant > l.tenant AND s.due_at IS NOT NULL ORDER BY s.tenant LIMIT 1
    ) n
    WHERE l.nth < :limit::integer
)
SELECT l.tenant, EXISTS (
    SELECT FROM betimes.stream s
    WHERE s.tenant = l.tenant AND s.kind = ANY (:names) AND s.due_at <= (SELECT betimes.clock(:now))
    AND (s.tenant || '/' || s.kind) <> ALL (:held::text[]) --?
)
FROM looked_at l ORDER BY l.nth;

-- tenants_with_calls: the next tenants that have open calls, and whether one for these executors is due
WITH RECURSIVE looked_at AS (
    (
        SELECT e.tenant, 1 AS nth FROM betimes.effect e
        WHERE e.tenant > :after AND e.executor <> 'send' AND e.status IN ('pending', 'leased')
        ORDER BY e.tenant LIMIT 1
    )
    UNION ALL
    SELECT n.tenant, l.nth + 1
    FROM looked_at l
    CROSS JOIN LATERAL (
        SELECT e.tenant FROM betimes.effect e
        WHERE e.tenant > l.tenant AND e.executor <> 'send' AND e.status IN ('pending', 'leased')
        ORDER BY e.tenant LIMIT 1
    ) n
    WHERE l.nth < :limit::integer
)
SELECT l.tenant, EXISTS (
    SELECT FROM betimes.effect e
    WHERE e.tenant = l.tenant AND e.executor = ANY (:names) AND e.executor <> 'send'
        AND e.status IN ('pending', 'leased') AND e.next_attempt_at <= (SELECT betimes.clock(:now))
    AND (e.tenant || '/' || e.kind) <> ALL (:held::text[]) --?
)
FROM looked_at l ORDER BY l.nth;

-- lease_calls_in_shares: take calls of some tenants that are due, of each at most its share
WITH picked AS MATERIALIZED (
    SELECT o.*
    FROM unnest(:tenants::text[], :shares::bigint[]) AS t (tenant, share)
    CROSS JOIN LATERAL (
        SELECT c.*
        FROM unnest(:executors::text[]) x
        CROSS JOIN LATERAL (
            SELECT e.tenant, e.kind, e.id, e.version, e.place, e.next_attempt_at AS due_at,
                e.status = 'leased' AND (e.at_most_once OR e.attempts >= e.attempts_max) AS spent
            FROM betimes.effect e
            WHERE e.tenant = t.tenant AND e.executor = x AND e.executor <> 'send'
                AND e.status IN ('pending', 'leased') AND e.next_attempt_at <= (SELECT betimes.clock(:now))
                AND (e.tenant || '/' || e.kind) <> ALL (:held::text[]) --?
            ORDER BY e.next_attempt_at, e.kind, e.id, e.version, e.place LIMIT t.share FOR UPDATE SKIP LOCKED
        ) c
        ORDER BY c.due_at, c.kind, c.id, c.version, c.place LIMIT t.share
    ) o
    ORDER BY o.due_at, o.tenant, o.kind, o.id, o.version, o.place LIMIT :limit
)
@lease_picked;
