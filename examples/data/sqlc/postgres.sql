-- name: AddToBalance :execrows
UPDATE accounts SET balance = balance + sqlc.arg(cents) WHERE id = sqlc.arg(account);

-- name: Balance :one
SELECT balance FROM accounts WHERE id = $1;

-- name: Book :exec
INSERT INTO ledger (id, message, debited, credited, cents) VALUES ($1, $2, $3, $4, $5);

-- name: UseVoucher :exec
INSERT INTO vouchers (id, message) VALUES ($1, $2);
