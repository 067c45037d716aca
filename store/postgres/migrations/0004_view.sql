-- Claims as a person reads them.
CREATE OR REPLACE VIEW {{view}} AS
SELECT consumer,
	CASE get_byte(key, 0)
		WHEN 1 THEN encode(substr(key, 2), 'hex')::uuid::text
		WHEN 2 THEN convert_from(substr(key, 2), 'UTF8')
		ELSE 'sha256:' || encode(substr(key, 2), 'hex')
	END AS key,
	encode(fingerprint, 'hex') AS fingerprint,
	claimed_at
FROM {{claims}};
