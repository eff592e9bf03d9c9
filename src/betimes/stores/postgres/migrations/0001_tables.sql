-- Streams, their ledger, keys, effects and policies. Instants are microseconds since 1970; JSON is text, byte for byte.
-- Names compare byte by byte (COLLATE "C"), which is the order in which Python sorts them: everybody locks in one order.

-- One row per stream. A row at version 0 is a lock on a name, seen only by the transaction that made it.
CREATE TABLE betimes.stream (
    tenant text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    created_at bigint,
    at bigint NOT NULL DEFAULT 0,
    alarm_at bigint,
    snooze_until bigint,
    wake_at bigint GENERATED ALWAYS AS (CASE WHEN alarm_at IS NOT NULL THEN greatest(alarm_at, snooze_until) END) STORED,
    due_at bigint,
    schema integer NOT NULL DEFAULT 0,
    status text COLLATE "C" NOT NULL DEFAULT '',
    owner text COLLATE "C" NOT NULL DEFAULT '',
    digest text COLLATE "C" NOT NULL DEFAULT '',
    state text,
    PRIMARY KEY (tenant, kind, id)
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- With the name, so that of a hundred thousand streams due at one instant the first few are found without sorting all.
CREATE INDEX stream_wake ON betimes.stream (wake_at, tenant, kind, id) WHERE wake_at IS NOT NULL;
CREATE INDEX stream_due ON betimes.stream (due_at, tenant, kind, id) WHERE due_at IS NOT NULL;
CREATE INDEX stream_snoozed ON betimes.stream (snooze_until) WHERE snooze_until IS NOT NULL;

-- Lists, the newest first: of all, and of one owner. Neither names a column that every write changes: an update that
-- leaves all indexed columns as they are, in conditions too, stays within its page.
CREATE INDEX stream_created ON betimes.stream (tenant, kind, created_at, id) WHERE created_at IS NOT NULL;
CREATE INDEX stream_owner ON betimes.stream (tenant, kind, owner, created_at, id) WHERE owner <> '';

-- History. The sequence stands at 0 and "has been called", so that its last value is always below the next one.
CREATE SEQUENCE betimes.ledger_seq MINVALUE 0 START 0 CACHE 1;
SELECT nextval('betimes.ledger_seq');

CREATE TABLE betimes.ledger (
    seq bigint PRIMARY KEY DEFAULT nextval('betimes.ledger_seq'),
    version bigint NOT NULL,
    at bigint NOT NULL,
    schema integer NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    turn text COLLATE "C" NOT NULL,
    command text,
    events text NOT NULL,
    policy text COLLATE "C" NOT NULL,
    prev text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    collection text COLLATE "C",
    key text COLLATE "C",
    verdict text,
    reply text,
    actor text COLLATE "C" NOT NULL,
    correlation text COLLATE "C" NOT NULL,
    cause text COLLATE "C" NOT NULL
);

CREATE UNIQUE INDEX ledger_history ON betimes.ledger (tenant, kind, id, version);
CREATE INDEX ledger_correlation ON betimes.ledger (tenant, correlation, seq) WHERE correlation <> '';

-- Idempotency keys. A key at version 0 is a reservation, seen only by the transaction that made it.
-- The stream a key led to is of the key's own tenant. Expiry is indexed by the hour, and a reservation bears the hour
-- it will most likely keep: using it is then an update within the page that touches no index.
-- The part that differs most comes first in the index: it decides most comparisons.
CREATE TABLE betimes.key (
    tenant text COLLATE "C" NOT NULL,
    collection text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    expires_at bigint,
    expires_hour integer NOT NULL,
    kind text COLLATE "C" NOT NULL DEFAULT '',
    id text COLLATE "C" NOT NULL DEFAULT '',
    request text NOT NULL DEFAULT '',
    PRIMARY KEY (key, collection, tenant)
) WITH (fillfactor = 40);

CREATE INDEX key_expiry ON betimes.key (expires_hour);

-- What is owed: calls for executors, and sends, which are commands to other streams.
CREATE TABLE betimes.effect (
    tenant text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    created_at bigint NOT NULL,
    next_attempt_at bigint,
    finished_at bigint,
    fence bigint NOT NULL DEFAULT 0,
    place integer NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    attempts_max integer NOT NULL,
    lease_s integer NOT NULL,
    at_most_once boolean NOT NULL,
    executor text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL DEFAULT 'pending',
    to_tenant text COLLATE "C",
    to_kind text COLLATE "C",
    to_id text COLLATE "C",
    last_error text NOT NULL DEFAULT '',
    history jsonb NOT NULL DEFAULT '[]',
    payload text NOT NULL,
    PRIMARY KEY (tenant, kind, id, version, place)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX effect_call ON betimes.effect (executor, next_attempt_at)
    WHERE executor <> 'send' AND status IN ('pending', 'leased');
CREATE INDEX effect_tenant_call ON betimes.effect (tenant, executor, next_attempt_at)
    WHERE executor <> 'send' AND status IN ('pending', 'leased');
CREATE INDEX effect_send ON betimes.effect (tenant, kind, id, version, place)
    WHERE executor = 'send' AND status = 'pending';
CREATE INDEX effect_send_age ON betimes.effect (created_at) WHERE executor = 'send' AND status = 'pending';
CREATE INDEX effect_created ON betimes.effect (tenant, created_at, kind, id, version, place)
    WHERE executor <> 'send' OR status <> 'pending';
CREATE INDEX effect_dead ON betimes.effect (tenant, created_at, kind, id, version, place) WHERE status = 'dead';
CREATE INDEX effect_finished ON betimes.effect (finished_at) WHERE finished_at IS NOT NULL AND status <> 'dead';

-- Policy bodies, kept as long as a segment names them.
CREATE TABLE betimes.policy (
    fingerprint text COLLATE "C" PRIMARY KEY,
    body text NOT NULL
);
