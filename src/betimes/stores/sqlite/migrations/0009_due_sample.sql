-- Every sixteenth of what is due and has an owner, by which a large tenant's is counted. Scores have none, and are not.
CREATE INDEX stream_due_sample ON stream (tenant, kind, due_at)
WHERE due_at IS NOT NULL AND owner <> '' AND n % 16 = 0;
