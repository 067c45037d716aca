-- The least rights of the role that runs attempts, the purge and the relay.
GRANT SELECT, INSERT, DELETE ON {{claims}} TO {{role}};
-- The purge locks what it deletes, for which PostgreSQL wants the right to
-- change something.
GRANT UPDATE (claimed_at) ON {{claims}} TO {{role}};
GRANT SELECT, INSERT, UPDATE, DELETE ON {{outputs}} TO {{role}};
GRANT SELECT, UPDATE ON {{state}} TO {{role}};
GRANT SELECT ON {{migrations}}, {{view}} TO {{role}};
