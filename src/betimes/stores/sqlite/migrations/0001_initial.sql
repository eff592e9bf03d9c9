-- Streams, their ledger, keys, effects and policies.
--
-- Instants are microseconds since 1970 (datetime(at / 1000000, 'unixepoch') shows them); states, commands, events,
-- verdicts and replies are JSON text. Every index is paid for by the writer, so each one below names who needs it.
-- History is read by stream (the ledger's UNIQUE), by correlation, or in commit order; by key, turn or instant it is
-- searched in commit order without an index. Indexes of what is due end in the name, so that a million rows due at one
-- instant are taken in order without being sorted.

CREATE TABLE stream (
    n INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    schema INTEGER NOT NULL,
    owner TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    at INTEGER NOT NULL,
    alarm_at INTEGER,
    snooze_until INTEGER,
    wake_at INTEGER AS (max(alarm_at, ifnull(snooze_until, alarm_at))) STORED,
    due_at INTEGER,
    digest TEXT NOT NULL,
    state TEXT,
    UNIQUE (tenant, kind, id)
) STRICT;

-- Wakes: the earliest of each kind; a snoozed stream stands where its snooze ends, not at the head.
CREATE INDEX stream_alarm ON stream (kind, wake_at, tenant, id) WHERE wake_at IS NOT NULL;

-- Claims and sweeps over all tenants, and for one tenant whatever the others have waiting; lists of what is due.
CREATE INDEX stream_due ON stream (kind, due_at, tenant, id) WHERE due_at IS NOT NULL;
CREATE INDEX stream_tenant_due ON stream (tenant, kind, due_at, id) WHERE due_at IS NOT NULL;

-- Lists, the newest first: of all, and of one owner. What they hold of a stream never changes, but for its owner.
CREATE INDEX stream_created ON stream (tenant, kind, created_at, id);
CREATE INDEX stream_owner ON stream (tenant, kind, owner, created_at, id) WHERE owner <> '';

-- The count of failing wakes.
CREATE INDEX stream_snoozed ON stream (kind, snooze_until) WHERE snooze_until IS NOT NULL;

CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    turn TEXT NOT NULL,
    at INTEGER NOT NULL,
    schema INTEGER NOT NULL,
    command TEXT,
    events TEXT NOT NULL,
    policy TEXT NOT NULL,
    prev TEXT NOT NULL,
    digest TEXT NOT NULL,
    collection TEXT,
    key TEXT,
    verdict TEXT,
    reply TEXT,
    actor TEXT NOT NULL,
    correlation TEXT NOT NULL,
    cause TEXT NOT NULL,
    UNIQUE (tenant, kind, id, version)
) STRICT;

CREATE INDEX ledger_correlation ON ledger (correlation) WHERE correlation <> '';

CREATE TABLE key (
    tenant TEXT NOT NULL,
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    request TEXT NOT NULL,
    stream_tenant TEXT NOT NULL,
    stream_kind TEXT NOT NULL,
    stream_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    UNIQUE (tenant, collection, key)
) STRICT;

-- Forgetting; new keys expire last, so it grows at its end.
CREATE INDEX key_expiry ON key (expires_at);

CREATE TABLE effect (
    n INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    place INTEGER NOT NULL,
    executor TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    attempts INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    next_attempt_at INTEGER,
    finished_at INTEGER,
    at_most_once INTEGER NOT NULL,
    attempts_max INTEGER NOT NULL,
    lease_s INTEGER NOT NULL,
    to_tenant TEXT,
    to_kind TEXT,
    to_id TEXT,
    last_error TEXT NOT NULL DEFAULT '',
    history TEXT NOT NULL DEFAULT '[]',
    payload TEXT NOT NULL,
    UNIQUE (tenant, kind, id, version, place)
) STRICT;

-- Calls to take, whose leases end at next_attempt_at too; the count of what is pending.
CREATE INDEX effect_open ON effect (executor, next_attempt_at, tenant, kind, id, version, place, status)
WHERE status IN ('pending', 'leased');

-- The same calls for one tenant, whatever the others have waiting.
CREATE INDEX effect_tenant_open ON effect (tenant, executor, next_attempt_at, kind, id, version, place, status)
WHERE executor <> 'send' AND status IN ('pending', 'leased');

-- Commands to other streams: the oldest of a source, and all by age.
CREATE INDEX effect_send ON effect (tenant, kind, id, version, place)
WHERE executor = 'send' AND status = 'pending';
CREATE INDEX effect_send_age ON effect (created_at, tenant, kind, id, version, place)
WHERE executor = 'send' AND status = 'pending';

-- Lists, the newest first: of all that is not about to be applied, and of dead letters.
CREATE INDEX effect_created ON effect (tenant, created_at, kind, id, version, place)
WHERE executor <> 'send' OR status <> 'pending';
CREATE INDEX effect_dead ON effect (tenant, created_at, kind, id, version, place) WHERE status = 'dead';

-- Forgetting, and the count of dead letters.
CREATE INDEX effect_ended ON effect (status, finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE policy (
    fingerprint TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;
