-- What people ask is answered from here, and no decision reads it.

-- Outcomes by minute, hour and day (`level` is its length). A projection of the ledger, which can be counted again.
CREATE TABLE tally (
    level INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reasons TEXT NOT NULL,
    count INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    PRIMARY KEY (level, tenant, at, kind, outcome, reasons)
) STRICT, WITHOUT ROWID;

-- Forgetting minutes and hours of all tenants.
CREATE INDEX tally_age ON tally (level, at);

-- How far the ledger was counted, and who counts.
CREATE TABLE tally_position (
    n INTEGER PRIMARY KEY CHECK (n = 1),
    seq INTEGER NOT NULL DEFAULT 0,
    at INTEGER NOT NULL DEFAULT 0,
    holder TEXT NOT NULL DEFAULT '',
    lease_until INTEGER NOT NULL DEFAULT 0,
    minutes_from INTEGER NOT NULL DEFAULT 0,
    hours_from INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO tally_position (n) VALUES (1);

-- Processes that told of themselves.
CREATE TABLE process (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL,
    version TEXT NOT NULL,
    executors TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT;

CREATE INDEX process_seen ON process (seen_at);

-- Alarms of one tenant as before, and with the name: they are counted by kind without looking at their rows, and a page
-- of those of one instant begins where the last one ended.
DROP INDEX stream_tenant_alarm;
CREATE INDEX stream_tenant_alarm ON stream (tenant, wake_at, kind, id) WHERE wake_at IS NOT NULL;

-- Every sixteenth of them, by which a large tenant's are counted.
CREATE INDEX stream_alarm_sample ON stream (tenant, wake_at, kind) WHERE wake_at IS NOT NULL AND n % 16 = 0;

-- The few whose wakes fail, by tenant.
CREATE INDEX stream_tenant_snoozed ON stream (tenant, kind, id) WHERE snooze_until IS NOT NULL;
