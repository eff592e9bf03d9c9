-- formerly: 4378977c9161c997d618683964718c2ec7c518b466a97f7d4772cf615dc96c6a
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

INSERT INTO betimes.head (part, segments, digest, effects, unrecorded, unrecorded_until)
SELECT 0, coalesce(sum(version), 0),
    coalesce(sum(
        CASE WHEN digest ~ '^[0-9a-f]{8}' THEN ('x' || substr(digest, 1, 8))::bit(32)::bigint ELSE 0 END
    ), 0),
    (SELECT count(*) FROM betimes.effect), coalesce(sum(version), 0), max(at)
FROM betimes.stream WHERE version > 0;
