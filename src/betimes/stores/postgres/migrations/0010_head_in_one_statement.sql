-- As before, each in one statement whose plan is kept: a commit pays for it every time.
CREATE OR REPLACE FUNCTION betimes.segments_written() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION betimes.effects_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO betimes.head AS h (part, effects)
    SELECT 1 + pg_backend_pid() % 1024, count(*) FROM written HAVING count(*) > 0
    ON CONFLICT (part) DO UPDATE SET effects = h.effects + excluded.effects;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION betimes.effects_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO betimes.head AS h (part, effects)
    SELECT 1 + pg_backend_pid() % 1024, -count(*) FROM removed HAVING count(*) > 0
    ON CONFLICT (part) DO UPDATE SET effects = h.effects + excluded.effects;
    RETURN NULL;
END
$$;

DROP FUNCTION betimes.move_head(bigint, bigint, bigint);
