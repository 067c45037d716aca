-- name: AddToBalance :execrows
UPDATE accounts SET balance = balance + sqlc.arg(cents) WHERE id = sqlc.arg(account);

-- name: Balance :one
SELECT balance FROM accounts WHERE id = ?;

-- name: Book :exec
INSERT INTO ledger (id, message, debited, credited, cents) VALUES (?, ?, ?, ?, ?);

-- name: UseVoucher :exec
INSERT INTO vouchers (id, message) VALUES (?, ?);
