package data

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watermill-once/watermill-once/examples/data/ent"
	"github.com/watermill-once/watermill-once/examples/data/ent/account"
	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// Ent is the handler with ent. name is [dialect.Postgres], [dialect.MySQL] or
// [dialect.SQLite].
func Ent(name string) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		t, err := read(msg)
		if err != nil {
			return err
		}
		tx, err := once.Tx(msg.Context())
		if err != nil {
			return err
		}
		return entTransfer(msg.Context(), EntOn(name, tx.Tx), msg.UUID, t)
	}
}

// EntOn returns a client on the claim's transaction. It costs a few allocations
// and is made for each message. Hooks and interceptors of the application's
// client have to be given to it too.
func EntOn(name string, tx *sql.Tx) *ent.Client {
	return ent.NewClient(ent.Driver(&entDriver{Driver: entsql.NewDriver(name, entsql.Conn{ExecQuerier: tx})}))
}

// entDriver is ent's driver on a transaction that is not its own. ent's Tx would
// begin one on a pool, and panics on a *sql.Tx; ent calls it for client.Tx, and
// by itself for UpdateOne and bulks. Here it sets a savepoint, so that the
// rollback of what ent took for a transaction undoes that part and no more.
// ([dialect.NopTx] in its place would leave the part there.)
type entDriver struct {
	dialect.Driver // an interface: the BeginTx of ent's driver must not show through
	savepoints     atomic.Int64
}

// Tx sets a savepoint.
func (d *entDriver) Tx(ctx context.Context) (dialect.Tx, error) {
	s := &entSavepoint{Driver: d.Driver, ctx: context.WithoutCancel(ctx), name: fmt.Sprintf("ent_%d", d.savepoints.Add(1))}
	return s, s.Exec(ctx, "SAVEPOINT "+s.name, []any{}, nil)
}

// entSavepoint is what ent takes for its transaction. Its end is sent although
// the context has ended, since database/sql would drop it, and what was to be
// undone would be committed with the claim.
type entSavepoint struct {
	dialect.Driver
	ctx  context.Context // Commit and Rollback are given none
	name string
}

// Commit releases the savepoint.
func (s *entSavepoint) Commit() error { return s.end("RELEASE SAVEPOINT ") }

// Rollback undoes what came after the savepoint.
func (s *entSavepoint) Rollback() error {
	if err := s.end("ROLLBACK TO SAVEPOINT "); err != nil {
		return err
	}
	return s.end("RELEASE SAVEPOINT ")
}

func (s *entSavepoint) end(statement string) error {
	ctx, cancel := context.WithTimeout(s.ctx, store.DefaultRollback)
	defer cancel()
	return s.Exec(ctx, statement+s.name, []any{}, nil)
}

func entTransfer(ctx context.Context, client *ent.Client, id string, t Transfer) error {
	if err := entAdd(ctx, client.Account, t.From, -t.Cents); err != nil {
		return err
	}
	if err := entAdd(ctx, client.Account, t.To, t.Cents); err != nil {
		return err
	}
	err := client.Entry.Create().SetID(watermill.NewUUID()).SetMessage(id).
		SetDebited(t.From).SetCredited(t.To).SetCents(t.Cents).Exec(ctx)
	if err != nil {
		return err
	}
	if t.Voucher != "" {
		if err := unlessUsed(entBonus(ctx, client, id, t)); err != nil {
			return err
		}
	}
	from, err := client.Account.Get(ctx, t.From)
	if err != nil {
		return err
	}
	return covered(t.From, from.Balance, nil)
}

// entBonus is written as ent's documentation has it: Tx, and Commit or Rollback.
func entBonus(ctx context.Context, client *ent.Client, id string, t Transfer) error {
	tx, err := client.Tx(ctx)
	if err != nil {
		return err
	}
	err = entAdd(ctx, tx.Account, t.To, Bonus)
	if err == nil {
		err = tx.Voucher.Create().SetID(t.Voucher).SetMessage(id).Exec(ctx)
	}
	if err == nil {
		return tx.Commit()
	}
	if undo := tx.Rollback(); undo != nil {
		return fmt.Errorf("%w, and it could not be undone: %w", err, undo)
	}
	return err
}

func entAdd(ctx context.Context, accounts *ent.AccountClient, id, cents int64) error {
	n, err := accounts.Update().Where(account.ID(id)).AddBalance(cents).Save(ctx)
	return one(id, int64(n), err)
}
