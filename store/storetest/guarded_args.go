package storetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
)

// argScenarios: what a handler hands to its transaction, and gets from it, is
// what the application's pool would take and give.
func argScenarios() []scenario {
	return []scenario{
		{name: "arguments of every type behave as on the plain pool", on: unless(isDirect), run: everyArgument},
		{name: "named arguments behave as on the plain pool", run: namedArguments},
		{name: "columns tell of their types as on the plain pool", run: columnTypes},
	}
}

// money is a type that knows how to become a value, identifier one that is
// bytes to Go and text to the database, as UUIDs are.
type (
	money      struct{ cents int64 }
	identifier [16]byte
	state      string
)

func (m money) Value() (driver.Value, error) { return m.cents, nil }

func (i identifier) Value() (driver.Value, error) { return fmt.Sprintf("%x", i[:]), nil }

type failing struct{}

func (failing) Value() (driver.Value, error) { return nil, errors.New("no value today") }

// values are of every type that handlers hand over, and of some that no driver
// takes.
func values() []any {
	text, number := "pointed at", 7
	return []any{
		nil, true, false, 42, -1, int8(8), int16(16), int32(32), int64(1) << 62, uint(1), uint8(2), uint64(1) << 63,
		float32(0.5), 2.25, "text", "ünï'\\\"\x1a", "", []byte("bytes \x00\xff"),
		[]byte{},
		[]byte(nil),
		time.Date(2026, 2, 3, 4, 5, 6, 123456000, time.UTC), time.Date(2026, 2, 3, 4, 5, 6, 0, time.FixedZone("", 7200)),
		sql.NullString{},
		sql.NullString{String: "null", Valid: true},
		sql.NullInt64{Int64: 5, Valid: true},
		sql.NullBool{Bool: true, Valid: true},
		sql.NullFloat64{Float64: 1.5, Valid: true},
		sql.NullTime{},
		sql.Null[int32]{V: 3, Valid: true},
		money{1995},
		&money{5}, (*money)(nil),
		identifier{1, 2, 3},
		failing{},
		state("paid"),
		&text, &number, (*string)(nil), json.RawMessage(`{"a": 1}`), json.RawMessage(nil), sql.RawBytes("raw"),
		[]string{"a", "b"},
		[]int64{1, 2},
		map[string]int{"a": 1},
		struct{ A int }{1},
		make(chan int), func() {},
	}
}

// columnsOf are the columns to put them in.
func (h Harness) columnsOf() []string {
	columns := []string{"i " + h.Types.BigInt, "s " + h.Types.Text, "b " + h.Types.Bytes, "t " + h.Types.Timestamp, "f DOUBLE PRECISION", "o BOOLEAN"}
	if h.Dialect == "postgres" {
		columns = append(columns, "a TEXT[]", "j JSONB", "u UUID")
	}
	return columns
}

// stored tries every value in every column, in one transaction, each try behind
// a savepoint, and tells what came of it.
func stored(ctx context.Context, tx *sqlx.Tx, h Harness, values []any) (told []string, err error) {
	run := func(query string) {
		if err == nil {
			_, err = tx.ExecContext(ctx, query)
		}
	}
	for _, column := range h.columnsOf() {
		for i, v := range values {
			for way, insert := range map[string]func(query string) error{
				"exec": func(query string) error {
					_, err := tx.ExecContext(ctx, query, v)
					return err
				},
				"prepared": func(query string) error {
					stmt, err := tx.PreparexContext(ctx, query)
					if err != nil {
						return err
					}
					defer stmt.Close()
					_, err = stmt.ExecContext(ctx, v)
					return err
				},
			} {
				if way == "prepared" && column[0] != 'i' && column[0] != 's' {
					continue // what differs there is not the column
				}
				run("SAVEPOINT a")
				var came any
				failed := insert(tx.Rebind("INSERT INTO arguments (" + column[:1] + ") VALUES (?)"))
				if failed == nil {
					failed = tx.QueryRowContext(ctx, "SELECT "+column[:1]+" FROM arguments").Scan(&came)
				}
				if text, ok := came.([]byte); ok {
					came = string(text)
				}
				told = append(told, fmt.Sprintf("%02d %s %T into %s: %T %v, %v", i, way, v, column, came, came, failed))
				run("ROLLBACK TO SAVEPOINT a")
			}
		}
	}
	return told, err
}

func everyArgument(t testing.TB, h Harness) {
	p := open(t, h, 1)
	query := "CREATE TABLE arguments ("
	for i, column := range h.columnsOf() {
		if i > 0 {
			query += ", "
		}
		query += column
	}
	p.exec(query + ")")

	plain, err := p.s.DB().BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := values()
	want, err := stored(t.Context(), plain, h, all)
	if err := errors.Join(err, plain.Rollback()); err != nil {
		t.Fatal(err)
	}
	var got []string
	r, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) (err error) {
		got, err = stored(ctx, tx, h, all)
		return err
	})
	isNew(t, r, err)
	compare(t, got, want)
}

// compare compares what was told, in any order.
func compare(t testing.TB, got, want []string) {
	t.Helper()
	count := map[string]int{}
	for _, line := range want {
		count[line]++
	}
	for _, line := range got {
		count[line]--
	}
	for line, n := range count {
		switch {
		case n > 0:
			t.Errorf("only on the plain pool: %s", line)
		case n < 0:
			t.Errorf("only in an attempt: %s", line)
		}
	}
	if len(got) == 0 {
		t.Error("nothing was compared")
	}
}

func namedArguments(t testing.TB, h Harness) {
	p := open(t, h, 1)
	r, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) error {
		row := struct{ Name, Other string }{"named", "unused"}
		if _, err := tx.NamedExecContext(ctx, "INSERT INTO effects (name, n) VALUES (:name, 1)", row); err != nil {
			return err
		}
		rows, err := tx.NamedQuery("SELECT n FROM effects WHERE name = :name", map[string]any{"name": "named"})
		if err != nil {
			return err
		}
		if !rows.Next() {
			t.Error("the row is not found by its name")
		}
		if err := errors.Join(rows.Close(), rows.Err()); err != nil {
			return err
		}
		if h.Dialect == "sqlite" {
			_, err = tx.ExecContext(ctx, "INSERT INTO effects (name, n) VALUES (@name, @n)", sql.Named("n", 1), sql.Named("name", "x"))
			return err
		}
		return addEffect(ctx, tx, "x")
	})
	isNew(t, r, err)
	p.holds(1, 2)
	if h.Dialect == "sqlite" {
		return
	}
	// The other drivers know no names: that is a failed statement.
	_, err = p.run(p.patient("other"), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, tx.Rebind("INSERT INTO effects (name) VALUES (?)"), sql.Named("name", "x"))
		return err
	})
	_, pool := p.s.DB().ExecContext(t.Context(), p.s.DB().Rebind("INSERT INTO effects (name) VALUES (?)"), sql.Named("name", "x"))
	if (err == nil) != (pool == nil) {
		t.Errorf("in an attempt %v, on the plain pool %v", err, pool)
	}
}

// tellTypes is what a Rows tells of its columns.
func tellTypes(ctx context.Context, tx *sqlx.Tx) (told []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT * FROM arguments")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	for _, c := range types {
		length, hasLength := c.Length()
		precision, scale, hasScale := c.DecimalSize()
		nullable, known := c.Nullable()
		told = append(told, fmt.Sprint(c.Name(), c.DatabaseTypeName(), c.ScanType(), length, hasLength, precision, scale, hasScale, nullable, known))
	}
	for rows.Next() { // to the end
	}
	return told, rows.Err()
}

func columnTypes(t testing.TB, h Harness) {
	p := open(t, h, 1)
	p.exec("CREATE TABLE arguments (i " + h.Types.BigInt + " NOT NULL, s VARCHAR(17), d DECIMAL(9, 3), b " + h.Types.Bytes + ", t " + h.Types.Timestamp + ", o BOOLEAN)")
	plain, err := p.s.DB().BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := tellTypes(t.Context(), plain)
	if err := errors.Join(err, plain.Rollback()); err != nil {
		t.Fatal(err)
	}
	var got []string
	r, err := p.run(p.patient("key"), func(ctx context.Context, tx *sqlx.Tx) (err error) {
		got, err = tellTypes(ctx, tx)
		return err
	})
	isNew(t, r, err)
	compare(t, got, want)
}
