package postgres

import (
	"context"
	"database/sql"
	"encoding/hex"
	"strconv"

	"github.com/watermill-once/watermill-once/store"
)

const (
	// maxOutput: drivers write and read bytes in hex, and neither a message nor a
	// value may have more than 1 GiB then.
	maxOutput = 1<<29 - 1<<20
	// maxInsert bounds the outputs of one INSERT, and with it what client and
	// server keep in memory for it. A larger output goes alone.
	maxInsert = 256 << 20
)

func (dialect) OutputLimit(store.Server) (int64, string) {
	return maxOutput, "half of PostgreSQL's largest value, as bytes travel in hex"
}

// keep stores any number of outputs with a constant number of parameters. Of
// the arrays the first is the ordinals: an id is the first one's and its
// ordinal.
func keep(n *store.Names, b *store.Batch) string {
	return `INSERT INTO ` + n.Outputs + ` (id, consumer, key, ordinal, returned, size, uuid, topic, metadata, payload, created_at)
SELECT $1::bigint + ordinal, $2::text, $3::bytea, ordinal, returned,
	octet_length(uuid)::bigint + octet_length(topic) + octet_length(metadata) + octet_length(payload), uuid, topic, metadata, payload, ` + b.Now + `
FROM unnest($4::int[], $5::bool[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[]) AS o (ordinal, returned, uuid, topic, metadata, payload)`
}

// keepOne is keep for the usual handler, without the detour over arrays.
func keepOne(n *store.Names, b *store.Batch) string {
	return `INSERT INTO ` + n.Outputs + ` (id, consumer, key, ordinal, returned, size, uuid, topic, metadata, payload, created_at)
VALUES ($1::bigint, $2::text, $3::bytea, 0, $4::bool, $5::bigint, $6::bytea, $7::bytea, $8::bytea, $9::bytea, ` + b.Now + `)`
}

func oneArgs(b *store.Batch) []any {
	o := &b.Outputs[0]
	return []any{
		int64(o.ID), b.Row.Consumer, b.Row.Key, o.Returned, b.Size(0),
		[]byte(o.UUID), []byte(o.Topic), b.Metadata[0], notNil(o.Payload),
	}
}

// columns are the outputs from one place to another, by column.
type columns struct {
	ordinals                       []int32
	returned                       []bool
	uuid, topic, metadata, payload [][]byte
}

// cut is the part of a batch that one INSERT stores.
func cut(b *store.Batch, from int) (c columns, to int) {
	to = b.Fit(from, len(b.Outputs), maxInsert, b.Size)
	for i := from; i < to; i++ {
		o := &b.Outputs[i]
		c.ordinals = append(c.ordinals, int32(i))
		c.returned = append(c.returned, o.Returned)
		c.uuid = append(c.uuid, []byte(o.UUID))
		c.topic = append(c.topic, []byte(o.Topic))
		c.metadata = append(c.metadata, b.Metadata[i])
		c.payload = append(c.payload, notNil(o.Payload))
	}
	return c, to
}

// notNil: a nil slice would be NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// native are the arguments for pgx, which sends arrays as they are.
func (c columns) native(b *store.Batch) []any {
	return []any{int64(b.Outputs[0].ID), b.Row.Consumer, b.Row.Key, c.ordinals, c.returned, c.uuid, c.topic, c.metadata, c.payload}
}

// text are the arguments for any driver: arrays in PostgreSQL's own notation.
func (c columns) text(b *store.Batch) []any {
	return []any{
		int64(b.Outputs[0].ID), b.Row.Consumer, b.Row.Key,
		array(c.ordinals, func(s []byte, v int32) []byte { return strconv.AppendInt(s, int64(v), 10) }),
		array(c.returned, strconv.AppendBool),
		array(c.uuid, appendBytes), array(c.topic, appendBytes), array(c.metadata, appendBytes), array(c.payload, appendBytes),
	}
}

func array[T any](values []T, add func([]byte, T) []byte) string {
	s := []byte{'{'}
	for i, v := range values {
		if i > 0 {
			s = append(s, ',')
		}
		s = add(s, v)
	}
	return string(append(s, '}'))
}

// appendBytes writes "\\x…": in quotes, with the backslash of the hex notation
// escaped.
func appendBytes(s, v []byte) []byte {
	return append(hex.AppendEncode(append(s, `"\\x`...), v), '"')
}

func (dialect) Keep(ctx context.Context, q store.Querier, n *store.Names, b *store.Batch) error {
	for from := 0; from < len(b.Outputs); {
		c, to := cut(b, from)
		if _, err := q.Exec(ctx, keep(n, b), c.text(b)...); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// OwnLevel is read committed: the outbox needs no more, and above it would fail
// the transactions of handlers.
func (dialect) OwnLevel(sql.IsolationLevel) sql.IsolationLevel { return sql.LevelReadCommitted }

// ByIndex: the table fills and empties faster than its statistics follow, and
// with those of an empty one the planner reads and sorts all outputs for each
// lease.
func (dialect) ByIndex() string { return "SET LOCAL enable_sort = off" }

func (dialect) SkipLocked() string { return " FOR UPDATE SKIP LOCKED" }

// Bind makes arguments of everything, so that a pool's statement cache holds
// one text for each statement.
func (dialect) Bind(args *[]any, v any) string {
	*args = append(*args, v)
	name := "$" + strconv.Itoa(len(*args))
	switch v.(type) {
	case int64:
		return name + "::bigint"
	case []byte:
		return name + "::bytea"
	default:
		return name + "::text"
	}
}

func (dialect) InIDs(args *[]any, ids []store.OutputID) string {
	*args = append(*args, array(ids, func(s []byte, id store.OutputID) []byte { return strconv.AppendInt(s, int64(id), 10) }))
	return "id = ANY ($" + strconv.Itoa(len(*args)) + "::bigint[])"
}

func (dialect) Later(now, micros string) string {
	return "(" + now + " + " + micros + " * interval '1 microsecond')"
}

func (dialect) Micros(time string) string {
	return "(extract(epoch FROM " + time + ") * 1000000)::bigint"
}
