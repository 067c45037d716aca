INSERT INTO {{state}} (name, db_at, wall_at) VALUES ('purge', 0, 0) ON DUPLICATE KEY UPDATE name = name;
