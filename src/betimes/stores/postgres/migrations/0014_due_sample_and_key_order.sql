-- Every sixteenth of what is due and has an owner, by which a large tenant's is counted. Scores have none, and are not.
CREATE INDEX stream_due_sample ON betimes.stream (tenant, kind, due_at)
    WHERE due_at IS NOT NULL AND owner <> '' AND hashtext(id) & 15 = 0;

-- Keys in the order in which people look for them: those of one tenant and collection stand together, so that a search by
-- the beginning of a key never walks past other tenants'. One index as before: a second would be paid for by every write.
ALTER TABLE betimes.key DROP CONSTRAINT key_pkey;
ALTER TABLE betimes.key ADD CONSTRAINT key_pkey PRIMARY KEY (tenant, collection, key);
