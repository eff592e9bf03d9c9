-- Triggers belong to tables and so to no set of functions: they call those of the set that was applied last.

-- Locked in the order in which commits write to them: one that has written its effects and waits for the ledger must not
-- be waited for by whoever holds the ledger.
LOCK TABLE betimes.effect, betimes.ledger IN SHARE ROW EXCLUSIVE MODE;
CREATE OR REPLACE TRIGGER ledger_block_written AFTER INSERT ON betimes.ledger
    FOR EACH ROW WHEN (NEW.seq % 1024 = 0) EXECUTE FUNCTION betimes.ledger_block_written();
CREATE OR REPLACE TRIGGER head_segments AFTER INSERT ON betimes.ledger REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION betimes.segments_written();
CREATE OR REPLACE TRIGGER head_effects AFTER INSERT ON betimes.effect REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION betimes.effects_written();
CREATE OR REPLACE TRIGGER head_effects_gone AFTER DELETE ON betimes.effect REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION betimes.effects_removed();
