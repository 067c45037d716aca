-- What has to be remembered between runs: one row a name.
CREATE TABLE IF NOT EXISTS {{state}} (
	name    VARBINARY(64) NOT NULL PRIMARY KEY,
	db_at   BIGINT NOT NULL,
	wall_at BIGINT NOT NULL
) ENGINE=InnoDB;
