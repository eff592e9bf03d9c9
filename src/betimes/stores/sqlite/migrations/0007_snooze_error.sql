-- Why the wake of a stream that rests has failed; it means nothing once the snooze has ended.
ALTER TABLE stream ADD COLUMN snooze_error TEXT;
