-- What handlers produced, kept until it was sent. id is made by the store and
-- rises with time; ordinal is the place among the outputs of one claim; size is
-- the sum of the four that follow it.
CREATE TABLE IF NOT EXISTS {{outputs}} (
	id          INTEGER PRIMARY KEY,
	consumer    TEXT NOT NULL,
	"key"       BLOB NOT NULL,
	ordinal     INTEGER NOT NULL,
	returned    INTEGER NOT NULL,
	size        INTEGER NOT NULL,
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
-- The relay finds the oldest by it, past what was given up on.
CREATE INDEX IF NOT EXISTS {{prefix}}outputs_age ON {{outputs}} (created_at, id) WHERE dead_at IS NULL;
CREATE INDEX IF NOT EXISTS {{prefix}}outputs_dead ON {{outputs}} (dead_at, id) WHERE dead_at IS NOT NULL;
