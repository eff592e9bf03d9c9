-- has_migrations: Whether the table of migrations exists.
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'migration';

-- create_migrations: Which steps of the schema were applied, and what they were.
CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

-- applied_migrations: Number and checksum of every step that was applied.
SELECT json_group_array(json_array(number, checksum)) FROM migration;

-- record_migration: Note that a step was applied.
INSERT INTO migration (number, name, checksum, applied_at) VALUES (:number, :name, :checksum, :at);
