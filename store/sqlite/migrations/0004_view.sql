-- Claims as a person reads them.
CREATE VIEW IF NOT EXISTS {{view}} AS
SELECT consumer,
	CASE hex(substr("key", 1, 1))
		WHEN '01' THEN lower(hex(substr("key", 2, 4)) || '-' || hex(substr("key", 6, 2)) || '-' || hex(substr("key", 8, 2))
			|| '-' || hex(substr("key", 10, 2)) || '-' || hex(substr("key", 12, 6)))
		WHEN '02' THEN CAST(substr("key", 2) AS TEXT)
		ELSE 'sha256:' || lower(hex(substr("key", 2)))
	END AS "key",
	lower(hex(fingerprint)) AS fingerprint,
	strftime('%Y-%m-%d %H:%M:%f', claimed_at / 1000000.0, 'unixepoch') AS claimed_at
FROM {{claims}};
