-- Claims as a person reads them.
CREATE OR REPLACE VIEW {{view}} AS
SELECT CONVERT(consumer USING utf8mb4) AS consumer,
	CASE ORD(SUBSTRING(`key`, 1, 1))
		WHEN 1 THEN LOWER(CONCAT(HEX(SUBSTRING(`key`, 2, 4)), '-', HEX(SUBSTRING(`key`, 6, 2)), '-',
			HEX(SUBSTRING(`key`, 8, 2)), '-', HEX(SUBSTRING(`key`, 10, 2)), '-', HEX(SUBSTRING(`key`, 12, 6))))
		WHEN 2 THEN CONVERT(SUBSTRING(`key`, 2) USING utf8mb4)
		ELSE CONCAT('sha256:', LOWER(HEX(SUBSTRING(`key`, 2))))
	END AS `key`,
	LOWER(HEX(fingerprint)) AS fingerprint,
	claimed_at
FROM {{claims}};
