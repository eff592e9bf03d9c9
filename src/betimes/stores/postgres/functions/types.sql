-- The values that statements take and functions hand on: names, what is asked for, what is written.

-- Names, and a stream with the version that is cached of it.
CREATE TYPE betimes.stream_id AS (tenant text, kind text, id text);
CREATE TYPE betimes.key_id AS (tenant text, collection text, key text);
CREATE TYPE betimes.effect_id AS (tenant text, kind text, id text, version bigint, place integer);
CREATE TYPE betimes.asked_stream AS (tenant text, kind text, id text, cached bigint);

-- What a batch writes.
CREATE TYPE betimes.stream_write AS (
    tenant text, kind text, id text, expected bigint, version bigint, schema integer, state text, at bigint,
    alarm_at bigint, digest text, status text, owner text, due_at bigint,
    listed_at bigint
);
CREATE TYPE betimes.segment_write AS (
    tenant text, kind text, id text, version bigint, turn text, at bigint, schema integer, command text, events text,
    policy text, prev text, digest text, collection text, key text, verdict text, reply text,
    actor text, correlation text, cause text
);
CREATE TYPE betimes.key_write AS (
    tenant text, collection text, key text, request text, kind text, id text, version bigint, expires_at bigint
);
CREATE TYPE betimes.effect_write AS (
    tenant text, kind text, id text, version bigint, place integer, executor text, payload text, created_at bigint,
    next_attempt_at bigint, at_most_once boolean, attempts_max integer, lease_s integer,
    to_tenant text, to_kind text, to_id text, is_leased boolean
);
CREATE TYPE betimes.dead_send AS (
    tenant text, kind text, id text, version bigint, place integer, at bigint, error text
);
CREATE TYPE betimes.settlement AS (
    tenant text, kind text, id text, version bigint, place integer, fence bigint, status text, at bigint,
    next_attempt_at bigint, error text, duration_ms bigint
);
