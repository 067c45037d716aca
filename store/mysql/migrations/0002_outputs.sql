-- What handlers produced, kept until it was sent. ordinal is the place among
-- the outputs of one claim.
CREATE TABLE IF NOT EXISTS {{outputs}} (
	id          BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
	consumer    VARBINARY(255) NOT NULL,
	`key`       VARBINARY(201) NOT NULL,
	ordinal     INT NOT NULL,
	returned    BOOLEAN NOT NULL,
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
	KEY {{prefix}}outputs_age (created_at)
) ENGINE=InnoDB;
