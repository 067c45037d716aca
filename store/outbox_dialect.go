package store

import (
	"context"
	"database/sql"
)

// OutboxDialect is the part of a [Dialect] that is about outputs. The engine
// writes their statements itself; here is what differs in them.
type OutboxDialect interface {
	// OutputLimit is how many bytes one output may have, and what the server
	// calls that limit; 0 for none.
	OutputLimit(server Server) (bytes int64, name string)
	// Keep stores outputs in the open transaction of q: for a session that has
	// no better way.
	Keep(ctx context.Context, q Querier, n *Names, b *Batch) error

	// OwnLevel is the isolation level of the outbox's own transactions in a
	// store of a level.
	OwnLevel(level sql.IsolationLevel) sql.IsolationLevel
	// ByIndex is a statement after which the transaction reads in the order of an
	// index rather than sorts; empty where none is needed.
	ByIndex() string
	// SkipLocked ends a SELECT that locks what nobody else has locked.
	SkipLocked() string
	// Bind returns an expression for v (int64, string or []byte): a literal, or
	// a placeholder for an argument that it appends to args.
	Bind(args *[]any, v any) string
	// InIDs is a condition: id is one of ids.
	InIDs(args *[]any, ids []OutputID) string
	// Later is an expression for a time and so many microseconds, both
	// expressions.
	Later(now, micros string) string
	// Micros turns an expression for a time into microseconds since 1970.
	Micros(time string) string
}

// OutputRow reads one output off a row that has the columns of [UnsentQuery].
type OutputRow struct {
	id, attempts                   int64
	consumer                       string
	returned                       bool
	uuid, topic, metadata, payload []byte
}

const outputColumns = "id, consumer, attempts, returned, uuid, topic, metadata, payload"

// Dest are the destinations of the columns.
func (r *OutputRow) Dest() []any {
	return []any{&r.id, &r.consumer, &r.attempts, &r.returned, &r.uuid, &r.topic, &r.metadata, &r.payload}
}

// Output is the row that was read last. Its metadata is missing when the error
// is [ErrMetadata].
func (r *OutputRow) Output() (Output, error) {
	metadata, err := DecodeMetadata(r.metadata)
	return Output{
		ID: OutputID(r.id), UUID: string(r.uuid), Topic: string(r.topic), Metadata: metadata, Payload: r.payload,
		Returned: r.returned, Consumer: r.consumer, Attempts: int(r.attempts),
	}, err
}

// UnsentQuery asks for the outputs of a claim that are left, in their order.
func UnsentQuery(d Dialect, n *Names, row *Row) (query string, args []any) {
	return "SELECT " + outputColumns + " FROM " + n.Outputs + " WHERE " + ofClaim(d, &args, row) + " AND dead_at IS NULL ORDER BY ordinal", args
}

// Unsent reads them off q. One whose metadata nobody can read is left to the
// relay, which buries it.
func Unsent(ctx context.Context, d Dialect, q Querier, n *Names, row *Row) ([]Output, error) {
	query, args := UnsentQuery(d, n, row)
	return readOutputs(ctx, q, query, args, nil)
}

// readOutputs reads rows of [outputColumns], and tells bad of those whose
// metadata cannot be read.
func readOutputs(ctx context.Context, q Querier, query string, args []any, bad func(OutputID)) ([]Output, error) {
	var r OutputRow
	var outputs []Output
	err := q.QueryRows(ctx, query, args, r.Dest(), func() error {
		o, err := r.Output()
		switch {
		case err == nil:
			outputs = append(outputs, o)
		case bad != nil:
			bad(o.ID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return outputs, nil
}

func ofClaim(d Dialect, args *[]any, row *Row) string {
	return "consumer = " + d.Bind(args, row.Consumer) + " AND " + d.Quote("key") + " = " + d.Bind(args, row.Key)
}
