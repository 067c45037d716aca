-- A claim says: the writes of this consumer for this message are committed.
-- claimed_at counts microseconds since 1970.
CREATE TABLE IF NOT EXISTS {{claims}} (
	consumer    TEXT NOT NULL,
	"key"       BLOB NOT NULL,
	fingerprint BLOB,
	claimed_at  INTEGER NOT NULL,
	PRIMARY KEY (consumer, "key")
) STRICT, WITHOUT ROWID;
-- The purge finds what is old by it.
CREATE INDEX IF NOT EXISTS {{prefix}}claims_age ON {{claims}} (claimed_at);
