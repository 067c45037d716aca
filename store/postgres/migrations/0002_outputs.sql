-- What handlers produced, kept until it was sent. id is made by the store and
-- rises with time; ordinal is the place among the outputs of one claim; size is
-- the sum of the four that follow it.
CREATE TABLE IF NOT EXISTS {{outputs}} (
	id          bigint PRIMARY KEY,
	consumer    text COLLATE "C" NOT NULL,
	key         bytea NOT NULL,
	ordinal     integer NOT NULL,
	returned    boolean NOT NULL,
	size        bigint NOT NULL,
	uuid        bytea NOT NULL,
	topic       bytea NOT NULL,
	metadata    bytea NOT NULL,
	payload     bytea NOT NULL,
	created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
	lease_until timestamptz,
	attempts    integer NOT NULL DEFAULT 0,
	dead_at     timestamptz,
	reason      bytea,
	UNIQUE (consumer, key, ordinal)
);
-- The relay finds the oldest by it, past what was given up on.
CREATE INDEX IF NOT EXISTS {{prefix}}outputs_age ON {{outputs}} (created_at, id) WHERE dead_at IS NULL;
CREATE INDEX IF NOT EXISTS {{prefix}}outputs_dead ON {{outputs}} (dead_at, id) WHERE dead_at IS NOT NULL;
