-- What has to be remembered between runs: one row a name.
CREATE TABLE IF NOT EXISTS {{state}} (
	name    text COLLATE "C" PRIMARY KEY,
	db_at   bigint NOT NULL,
	wall_at bigint NOT NULL
);
INSERT INTO {{state}} (name, db_at, wall_at) VALUES ('purge', 0, 0) ON CONFLICT (name) DO NOTHING;
