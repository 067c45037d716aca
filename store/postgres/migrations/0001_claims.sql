-- A claim says: the writes of this consumer for this message are committed.
-- key is encoded (see store.EncodeKey), so equality is byte equality.
CREATE TABLE IF NOT EXISTS {{claims}} (
	consumer    text COLLATE "C" NOT NULL,
	key         bytea NOT NULL,
	fingerprint bytea,
	claimed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (consumer, key)
);
-- The purge finds what is old by it.
CREATE INDEX IF NOT EXISTS {{prefix}}claims_age ON {{claims}} (claimed_at);
