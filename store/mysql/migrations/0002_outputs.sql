-- What handlers produced, kept until it was sent. id is made by the store and
-- rises with time; ordinal is the place among the outputs of one claim; size is
-- the sum of the four that follow it. The relay finds the oldest by the last
-- index, past what was given up on.
CREATE TABLE IF NOT EXISTS {{outputs}} (
	id          BIGINT NOT NULL PRIMARY KEY,
	consumer    VARBINARY(255) NOT NULL,
	`key`       VARBINARY(201) NOT NULL,
	ordinal     INT NOT NULL,
	returned    BOOLEAN NOT NULL,
	size        BIGINT NOT NULL,
	uuid        LONGBLOB NOT NULL,
	topic       LONGBLOB NOT NULL,
	metadata    LONGBLOB NOT NULL,
	payload     LONGBLOB NOT NULL,
	created_at  DATETIME(6) NOT NULL,
	lease_until DATETIME(6),
	attempts    INT NOT NULL DEFAULT 0,
	dead_at     DATETIME(6),
	reason      LONGBLOB,
	UNIQUE KEY {{prefix}}outputs_claim (consumer, `key`, ordinal),
	KEY {{prefix}}outputs_age (dead_at, created_at, id)
) ENGINE=InnoDB;
