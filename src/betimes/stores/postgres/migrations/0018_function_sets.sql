-- formerly: c7dab7b148c959fbdbc73931a973c019443ccf27add175d46ad41cf365f1a39a
-- Functions and types live in sets of their own from here on, each set under names that end in its checksum. Those that
-- earlier migrations made under plain names are in nobody's way when they are gone; a process that still calls them is
-- told that they are.

-- In the order in which commits write to them, so that nobody waits in a circle.
LOCK TABLE betimes.effect, betimes.ledger IN ACCESS EXCLUSIVE MODE;
DROP TRIGGER IF EXISTS ledger_block_written ON betimes.ledger;
DROP TRIGGER IF EXISTS head_segments ON betimes.ledger;
DROP TRIGGER IF EXISTS head_effects ON betimes.effect;
DROP TRIGGER IF EXISTS head_effects_gone ON betimes.effect;
DROP ROUTINE IF EXISTS betimes.announcement, betimes.append, betimes.begin_batch, betimes.begin_due,
    betimes.begin_due_in_shares, betimes.begin_turn, betimes.begin_unheld, betimes.clock, betimes.commit_batch,
    betimes.commit_turn, betimes.create_free, betimes.effects_removed, betimes.effects_written, betimes.end_effects,
    betimes.end_ledger_blocks, betimes.head_part, betimes.ledger_block_written, betimes.likely_hour, betimes.missing,
    betimes.move_head, betimes.presume, betimes.presume_batch, betimes.replace_history, betimes.reserve,
    betimes.segments_written, betimes.settled_seq, betimes.use_keys, betimes.with_attempt, betimes.write_streams;
DROP TYPE IF EXISTS betimes.stream_id, betimes.key_id, betimes.effect_id, betimes.asked_stream, betimes.stream_write,
    betimes.segment_write, betimes.key_write, betimes.effect_write, betimes.dead_send, betimes.settlement;

-- Sets of functions that are there, by the checksum of their files.
CREATE TABLE betimes.function_set (
    checksum text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Whoever opens a store looks here whether there is anything to do.
GRANT SELECT ON betimes.function_set TO PUBLIC;
