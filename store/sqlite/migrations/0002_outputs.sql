-- What handlers produced, kept until it was sent. ordinal is the place among
-- the outputs of one claim.
CREATE TABLE IF NOT EXISTS {{outputs}} (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	consumer    TEXT NOT NULL,
	"key"       BLOB NOT NULL,
	ordinal     INTEGER NOT NULL,
	returned    INTEGER NOT NULL,
	uuid        BLOB NOT NULL,
	topic       BLOB NOT NULL,
	metadata    BLOB NOT NULL,
	payload     BLOB NOT NULL,
	created_at  INTEGER NOT NULL,
	lease_until INTEGER,
	attempts    INTEGER NOT NULL DEFAULT 0,
	dead_at     INTEGER,
	reason      BLOB,
	UNIQUE (consumer, "key", ordinal)
) STRICT;
CREATE INDEX IF NOT EXISTS {{prefix}}outputs_age ON {{outputs}} (created_at);
