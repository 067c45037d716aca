-- What has to be remembered between runs: one row a name.
CREATE TABLE IF NOT EXISTS {{state}} (
	name    TEXT NOT NULL PRIMARY KEY,
	db_at   INTEGER NOT NULL,
	wall_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO {{state}} (name, db_at, wall_at) VALUES ('purge', 0, 0) ON CONFLICT (name) DO NOTHING;
