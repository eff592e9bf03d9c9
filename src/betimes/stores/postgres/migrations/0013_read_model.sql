-- What people ask is answered from here, and no decision reads it.

-- Outcomes by minute, hour and day (`level` is its length). A projection of the ledger, which can be counted again.
CREATE TABLE betimes.tally (
    level bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    reasons text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    PRIMARY KEY (level, tenant, at, kind, outcome, reasons)
) WITH (fillfactor = 75);

-- Forgetting minutes and hours of all tenants, and nothing else: by `at` itself a question of one tenant could be
-- answered along it too, past the rows of all others.
CREATE INDEX tally_age ON betimes.tally (level, (at + 0));

-- How far the ledger was counted, and who counts.
CREATE TABLE betimes.tally_position (
    n integer PRIMARY KEY CHECK (n = 1),
    seq bigint NOT NULL DEFAULT 0,
    at bigint NOT NULL DEFAULT 0,
    holder text NOT NULL DEFAULT '',
    lease_until bigint NOT NULL DEFAULT 0,
    minutes_from bigint NOT NULL DEFAULT 0,
    hours_from bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

INSERT INTO betimes.tally_position (n) VALUES (1);

-- Processes that told of themselves.
CREATE TABLE betimes.process (
    name text COLLATE "C" PRIMARY KEY,
    role text NOT NULL,
    version text NOT NULL,
    executors text NOT NULL,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL
) WITH (fillfactor = 50);

CREATE INDEX process_seen ON betimes.process (seen_at);

-- Whoever may use the ledger may use these.
DO $$
DECLARE
    role regrole;
BEGIN
    FOR role IN
        SELECT DISTINCT granted.grantee::regrole
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) granted
        WHERE c.oid = 'betimes.ledger'::regclass AND granted.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format(
            'GRANT SELECT, INSERT, UPDATE, DELETE ON betimes.tally, betimes.tally_position, betimes.process TO %s', role
        );
    END LOOP;
END
$$;

-- Alarms of one tenant as before, and with the name: they are counted by kind without looking at their rows, and a page
-- of those of one instant begins where the last one ended.
DROP INDEX betimes.stream_tenant_wake;
CREATE INDEX stream_tenant_wake ON betimes.stream (tenant, wake_at, kind, id) WHERE wake_at IS NOT NULL;

-- Every sixteenth of them, by which a large tenant's are counted.
CREATE INDEX stream_wake_sample ON betimes.stream (tenant, wake_at, kind)
    WHERE wake_at IS NOT NULL AND hashtext(id) & 15 = 0;

-- The few whose wakes fail, by tenant.
CREATE INDEX stream_tenant_snoozed ON betimes.stream (tenant, kind, id) WHERE snooze_until IS NOT NULL;
