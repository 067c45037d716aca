-- One schema for every way and every database: PostgreSQL, MariaDB and SQLite take it as it is.

CREATE TABLE accounts (
    id      BIGINT NOT NULL PRIMARY KEY,
    balance BIGINT NOT NULL
);

-- A row for each transfer. Its id is made up by the handler, and message has no
-- unique index on purpose: that would keep a transfer from being booked twice,
-- and so hide what the guard does.
CREATE TABLE ledger (
    id       VARCHAR(36) NOT NULL PRIMARY KEY,
    message  VARCHAR(36) NOT NULL,
    debited  BIGINT      NOT NULL,
    credited BIGINT      NOT NULL,
    cents    BIGINT      NOT NULL
);

-- The vouchers that were used, each at most once.
CREATE TABLE vouchers (
    id      VARCHAR(36) NOT NULL PRIMARY KEY,
    message VARCHAR(36) NOT NULL
);
