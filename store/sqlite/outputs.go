package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/watermill-once/watermill-once/store"
)

const (
	// maxInsert bounds the outputs of one INSERT: six parameters each, of which
	// SQLite takes 32 766.
	maxInsert = 1000
	// maxInsertBytes bounds what the driver copies at once.
	maxInsertBytes = 64 << 20
)

// OutputLimit: a row may have no more bytes than a statement.
func (dialect) OutputLimit(store.Server) (int64, string) {
	return 1_000_000_000 - 4<<10, "SQLITE_MAX_LENGTH"
}

func (dialect) Keep(ctx context.Context, q store.Querier, n *store.Names, b *store.Batch) error {
	for from := 0; from < len(b.Outputs); {
		to := b.Fit(from, maxInsert, maxInsertBytes, b.Size)
		if err := insert(ctx, q, n, b, from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

func insert(ctx context.Context, q store.Querier, n *store.Names, b *store.Batch, from, to int) error {
	var s strings.Builder
	s.WriteString(`INSERT INTO ` + n.Outputs + ` (id, consumer, "key", ordinal, returned, size, uuid, topic, metadata, payload, created_at) VALUES `)
	args := make([]any, 0, 6*(to-from))
	for i := from; i < to; i++ {
		o := &b.Outputs[i]
		if i > from {
			s.WriteByte(',')
		}
		returned := 0
		if o.Returned {
			returned = 1
		}
		fmt.Fprintf(&s, "(%d, ?, ?, %d, %d, %d, ?, ?, ?, ?, %s)", o.ID, i, returned, b.Size(i), b.Now)
		args = append(args, b.Row.Consumer, b.Row.Key, []byte(o.UUID), []byte(o.Topic), b.Metadata[i], notNil(o.Payload))
	}
	_, err := q.Exec(ctx, s.String(), args...)
	return err
}

// notNil: a nil slice would be NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (dialect) OwnLevel(level sql.IsolationLevel) sql.IsolationLevel { return level }

// ByIndex has nothing to do: without statistics SQLite prefers the index whose
// order is asked for.
func (dialect) ByIndex() string { return "" }

// SkipLocked: the transaction is the file's one writer, and nothing else is
// locked.
func (dialect) SkipLocked() string { return "" }

func (dialect) Bind(_ *[]any, v any) string {
	switch v := v.(type) {
	case []byte:
		return "x'" + hex.EncodeToString(v) + "'"
	case string:
		return "CAST(x'" + hex.EncodeToString([]byte(v)) + "' AS TEXT)"
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

func (dialect) Later(now, micros string) string { return "(" + now + " + " + micros + ")" }

func (dialect) Micros(time string) string { return time }
