-- The head: how many segments were ever written, the sum of the digests that streams end in (the first 32 bits of each)
-- and how many effects there are; written in every commit. It is kept in parts, one for each session, so that those who
-- commit at the same time do not wait for each other. A database that was written before begins with what is there.
CREATE TABLE betimes.head (
    part integer PRIMARY KEY,
    segments bigint NOT NULL DEFAULT 0,
    digest bigint NOT NULL DEFAULT 0,
    effects bigint NOT NULL DEFAULT 0,
    unrecorded bigint NOT NULL DEFAULT 0,
    unrecorded_until bigint
) WITH (fillfactor = 50);

-- What a digest adds to the head; one that is none adds nothing.
CREATE FUNCTION betimes.head_part(p_digest text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_digest ~ '^[0-9a-f]{8}' THEN ('x' || substr(p_digest, 1, 8))::bit(32)::bigint ELSE 0 END
$$;

INSERT INTO betimes.head (part, segments, digest, effects, unrecorded, unrecorded_until)
SELECT 0, coalesce(sum(version), 0), coalesce(sum(betimes.head_part(digest)), 0), (SELECT count(*) FROM betimes.effect),
    coalesce(sum(version), 0), max(at)
FROM betimes.stream WHERE version > 0;

-- Add to this session's part: the last row a commit locks, and nobody else's while there are fewer sessions than parts.
CREATE FUNCTION betimes.move_head(p_segments bigint, p_digest bigint, p_effects bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO betimes.head AS h (part, segments, digest, effects)
    VALUES (1 + pg_backend_pid() % 1024, p_segments, p_digest, p_effects)
    ON CONFLICT (part) DO UPDATE SET segments = h.segments + excluded.segments, digest = h.digest + excluded.digest,
        effects = h.effects + excluded.effects
$$;

-- A checkpoint stands for segments that were counted already.
CREATE FUNCTION betimes.segments_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM betimes.move_head(count(*), sum(betimes.head_part(digest) - betimes.head_part(prev))::bigint, 0)
    FROM written WHERE turn <> 'checkpoint' HAVING count(*) > 0;
    RETURN NULL;
END
$$;

CREATE FUNCTION betimes.effects_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM betimes.move_head(0, 0, count(*)) FROM written HAVING count(*) > 0;
    RETURN NULL;
END
$$;

CREATE FUNCTION betimes.effects_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM betimes.move_head(0, 0, -count(*)) FROM removed HAVING count(*) > 0;
    RETURN NULL;
END
$$;

CREATE TRIGGER head_segments AFTER INSERT ON betimes.ledger REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION betimes.segments_written();
CREATE TRIGGER head_effects AFTER INSERT ON betimes.effect REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION betimes.effects_written();
CREATE TRIGGER head_effects_gone AFTER DELETE ON betimes.effect REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION betimes.effects_removed();
