-- A claim says: the writes of this consumer for this message are committed.
-- Binary columns compare byte by byte, whatever the database's collation.
-- claimed_at is UTC. The index is for the purge.
CREATE TABLE IF NOT EXISTS {{claims}} (
	consumer    VARBINARY(255) NOT NULL,
	`key`       VARBINARY(201) NOT NULL,
	fingerprint VARBINARY(64),
	claimed_at  DATETIME(6) NOT NULL,
	PRIMARY KEY (consumer, `key`),
	KEY {{prefix}}claims_age (claimed_at)
) ENGINE=InnoDB;
