-- A process of an older version that has the file open cannot append segments any more. It could still take calls, make
-- them and not settle them, so that they are made again, and let the wakes of streams rest. It names these columns when it
-- does so: now it is refused before anything happens.
ALTER TABLE effect RENAME COLUMN lease_s TO leased_for_s;
ALTER TABLE stream RENAME COLUMN snooze_error TO snoozed_because;
