-- The head: what every commit adds to its session's part of it, by triggers on what is written.

-- What a digest adds to the head; one that is none adds nothing.
CREATE FUNCTION betimes.head_part(p_digest text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_digest ~ '^[0-9a-f]{8}' THEN ('x' || substr(p_digest, 1, 8))::bit(32)::bigint ELSE 0 END
$$;

-- A checkpoint stands for segments that were counted already.
CREATE FUNCTION betimes.segments_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO betimes.head AS h (part, segments, digest)
    SELECT 1 + pg_backend_pid() % 1024, count(*), sum(
        ('x' || substr(w.digest, 1, 8))::bit(32)::bigint
        - CASE WHEN w.prev = '' THEN 0 ELSE ('x' || substr(w.prev, 1, 8))::bit(32)::bigint END
    )
    FROM written w WHERE w.turn <> 'checkpoint' HAVING count(*) > 0
    ON CONFLICT (part) DO UPDATE SET segments = h.segments + excluded.segments, digest = h.digest + excluded.digest;
    RETURN NULL;
END
$$;

CREATE FUNCTION betimes.effects_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO betimes.head AS h (part, effects)
    SELECT 1 + pg_backend_pid() % 1024, count(*) FROM written HAVING count(*) > 0
    ON CONFLICT (part) DO UPDATE SET effects = h.effects + excluded.effects;
    RETURN NULL;
END
$$;

CREATE FUNCTION betimes.effects_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO betimes.head AS h (part, effects)
    SELECT 1 + pg_backend_pid() % 1024, -count(*) FROM removed HAVING count(*) > 0
    ON CONFLICT (part) DO UPDATE SET effects = h.effects + excluded.effects;
    RETURN NULL;
END
$$;
