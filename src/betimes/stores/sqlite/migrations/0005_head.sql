-- The head: how many segments were ever written, the sum of the digests that streams end in (the first 32 bits of each)
-- and how many effects there are; written in every commit. A database that was written before begins with what is there.
CREATE TABLE head (
    n INTEGER PRIMARY KEY CHECK (n = 1),
    segments INTEGER NOT NULL,
    digest INTEGER NOT NULL,
    effects INTEGER NOT NULL,
    unrecorded INTEGER NOT NULL,
    unrecorded_until INTEGER
) STRICT;

INSERT INTO head (n, segments, digest, effects, unrecorded, unrecorded_until)
SELECT 1, ifnull(sum(version), 0), ifnull(sum(
    ((instr('0123456789abcdef', substr(digest, 1, 1)) - 1) << 28) + ((instr('0123456789abcdef', substr(digest, 2, 1)) - 1) << 24)
    + ((instr('0123456789abcdef', substr(digest, 3, 1)) - 1) << 20) + ((instr('0123456789abcdef', substr(digest, 4, 1)) - 1) << 16)
    + ((instr('0123456789abcdef', substr(digest, 5, 1)) - 1) << 12) + ((instr('0123456789abcdef', substr(digest, 6, 1)) - 1) << 8)
    + ((instr('0123456789abcdef', substr(digest, 7, 1)) - 1) << 4) + (instr('0123456789abcdef', substr(digest, 8, 1)) - 1)
), 0), (SELECT count(*) FROM effect), ifnull(sum(version), 0), max(at)
FROM stream WHERE version > 0;
