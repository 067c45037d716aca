package mysql

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	driver "github.com/go-sql-driver/mysql"

	"github.com/watermill-once/watermill-once/store"
)

const (
	// packetRoom is left of the largest packet for what is around an output.
	packetRoom = 4 << 10
	// maxText bounds a statement with outputs in it: the driver itself sends no
	// larger packet than 64 MiB, unless its DSN says otherwise.
	maxText = 32 << 20
	// maxJoined is the largest INSERT that is sent as a part of a compound
	// statement, of which the server makes copies.
	maxJoined = 1 << 20
)

// OutputLimit: an output must travel in one packet.
func (dialect) OutputLimit(server store.Server) (int64, string) {
	if server.MaxStatement <= 0 {
		return 0, ""
	}
	return max(1, server.MaxStatement-packetRoom), "max_allowed_packet, less what is around an output"
}

// textLimit is how large a statement may be.
func textLimit(server store.Server) int64 {
	if server.MaxStatement <= 0 {
		return maxText
	}
	return min(maxText, max(1, server.MaxStatement-packetRoom))
}

// keeps plans the statements that store a batch: literals in hex, because with
// arguments the driver prepares; or arguments, for an output whose literals
// would be too large, since then only its own bytes count.
type keeps struct {
	names *store.Names
	batch *store.Batch
	from  int // the place of the statement that was taken last
	next  int
}

// written is the size of an output as literals.
func (k *keeps) written(i int) int64 {
	row := k.batch.Row
	return 2*(k.batch.Size(i)+int64(len(row.Consumer)+len(row.Key))) + 160
}

// take returns the next statement; last says that there is no other.
func (k *keeps) take() (query string, args []any, last bool) {
	limit := textLimit(k.batch.Row.Server)
	k.from = k.next
	if k.written(k.from) > limit {
		k.next++
		query, args = k.arguments(k.from)
		return query, args, k.next == len(k.batch.Outputs)
	}
	k.next = k.batch.Fit(k.from, len(k.batch.Outputs), limit, k.written)
	return k.literals(k.from, k.next), nil, k.next == len(k.batch.Outputs)
}

// send sends the statement that was taken last. Where its DSN lets the driver
// send less than the server would take, it refuses the literals and has sent
// nothing; arguments it cuts into pieces.
func (k *keeps) send(ctx context.Context, q store.Querier, query string, args []any) error {
	if args != nil {
		_, err := q.ExecPrepared(ctx, query, args...)
		return tooLarge(err)
	}
	_, err := q.Exec(ctx, query)
	if !errors.Is(err, driver.ErrPktTooLarge) {
		return tooLarge(err)
	}
	for i := k.from; i < k.next; i++ {
		query, args := k.arguments(i)
		if _, err := q.ExecPrepared(ctx, query, args...); err != nil {
			return tooLarge(err)
		}
	}
	return nil
}

const outputsInto = " (id, consumer, `key`, ordinal, returned, size, uuid, topic, metadata, payload, created_at) VALUES "

func (k *keeps) literals(from, to int) string {
	size := 256
	for i := from; i < to; i++ {
		size += int(k.written(i))
	}
	s := append(make([]byte, 0, size), "INSERT INTO "+k.names.Outputs+outputsInto...)
	for i := from; i < to; i++ {
		if i > from {
			s = append(s, ',')
		}
		o := &k.batch.Outputs[i]
		s = k.begin(s, i)
		for _, text := range [][]byte{[]byte(o.UUID), []byte(o.Topic), k.batch.Metadata[i], o.Payload} {
			s = append(hex.AppendEncode(append(s, ", x'"...), text), '\'')
		}
		s = append(append(append(s, ", "...), k.batch.Now...), ')')
	}
	return string(s)
}

func (k *keeps) arguments(i int) (query string, args []any) {
	o := &k.batch.Outputs[i]
	query = "INSERT INTO " + k.names.Outputs + outputsInto + string(k.begin(nil, i)) + ", ?, ?, ?, ?, " + k.batch.Now + ")"
	return query, []any{[]byte(o.UUID), []byte(o.Topic), k.batch.Metadata[i], notNil(o.Payload)}
}

// notNil: a nil slice would be NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// begin writes the values before the UUID.
func (k *keeps) begin(s []byte, i int) []byte {
	row, o := k.batch.Row, &k.batch.Outputs[i]
	return fmt.Appendf(s, "(%d, %s, %s, %d, %t, %d", o.ID, literal([]byte(row.Consumer)), literal(row.Key), i, o.Returned, k.batch.Size(i))
}

// tooLarge names a limit that is met in spite of what the server said: the
// driver's own, or one of a proxy.
func tooLarge(err error) error {
	e, ok := errors.AsType[*driver.MySQLError](err)
	if ok && e.Number == errPacket || errors.Is(err, driver.ErrPktTooLarge) {
		return fmt.Errorf("%w (maxAllowedPacket of the DSN, or a max_allowed_packet that has shrunk): %w", store.ErrTooLarge, err)
	}
	return err
}

func (dialect) Keep(ctx context.Context, q store.Querier, n *store.Names, b *store.Batch) error {
	k := keeps{names: n, batch: b}
	for last := false; !last; {
		var query string
		var args []any
		query, args, last = k.take()
		if err := k.send(ctx, q, query, args); err != nil {
			return err
		}
	}
	return nil
}

// OwnLevel is the store's: an application that chose another may have had to
// (see [explain]).
func (dialect) OwnLevel(level sql.IsolationLevel) sql.IsolationLevel { return level }

// ByIndex has nothing to do: the index is equal in all but the order.
func (dialect) ByIndex() string { return "" }

func (dialect) SkipLocked() string { return " FOR UPDATE SKIP LOCKED" }

// Bind makes literals of everything: with arguments the driver would send
// prepare, execute and close.
func (dialect) Bind(_ *[]any, v any) string {
	switch v := v.(type) {
	case []byte:
		return literal(v)
	case string:
		return literal([]byte(v))
	default:
		return fmt.Sprintf("%d", v)
	}
}

func (dialect) InIDs(_ *[]any, ids []store.OutputID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(int64(id), 10)
	}
	return "id IN (" + strings.Join(texts, ",") + ")"
}

func (dialect) Later(now, micros string) string {
	return "(" + now + " + INTERVAL " + micros + " MICROSECOND)"
}

func (dialect) Micros(time string) string {
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + time + ")"
}
