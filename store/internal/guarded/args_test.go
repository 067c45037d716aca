package guarded_test

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

type named string

// arguments of every type, and some that no driver takes.
var arguments = map[string][]any{
	"none": nil,
	"nil":  {nil},
	"basic": {
		true, 1, int8(-1), int16(2), int32(-3), int64(4), uint8(5), uint16(6), uint32(7), uint64(8), float32(1.5), 2.5,
		"text", []byte("bytes"), time.Unix(1, 2).UTC(), named("named"),
	},
	"bool":               {true},
	"bool pointer":       {new(bool)},
	"large uint64":       {uint64(1 << 63)},
	"nil bytes":          {[]byte(nil)},
	"nil pointer":        {(*string)(nil)},
	"pointer":            {pointer("text")},
	"pointer to pointer": {pointer(pointer(7))},
	"null types":         {sql.NullString{}, sql.NullString{String: "x", Valid: true}, sql.NullInt64{Int64: 1, Valid: true}, sql.NullTime{}, sql.Null[float64]{V: 1, Valid: true}},
	"json":               {json.RawMessage(`{}`)},
	"raw bytes":          {sql.RawBytes("raw")},
	"valuer":             {valuer{v: "valued"}, &valuer{v: int64(1)}},
	"nil valuer":         {(*valuer)(nil)},
	"valuer of special":  {valuer{v: special{1}}},
	"failing valuer":     {"before", valuer{err: errFake}, "after"},
	"special":            {special{7}},
	"slice":              {[]int64{1, 2}},
	"strings":            {[]string{"a"}},
	"map":                {map[string]int{}},
	"struct":             {struct{ A int }{1}},
	"complex":            {complex(1, 2)},
	"func":               {func() {}},
	"removed":            {"before", make(chan int), "after"},
	"all removed":        {make(chan int)},
	"named":              {sql.Named("a", 1), sql.Named("b", "x")},
	"named badly":        {sql.Named("1", 1)},
	"many":               {1, 2, 3, 4, 5, 6, 7},
	"named special":      {sql.Named("a", special{1})},
}

func pointer[T any](v T) *T { return &v }

// ways to send a statement with arguments.
var ways = map[string]func(tx *sqlx.Tx, args []any) error{
	"exec": func(tx *sqlx.Tx, args []any) error {
		result, err := tx.Exec("Q", args...)
		if err == nil {
			_, err = result.RowsAffected()
		}
		return err
	},
	"query":          func(tx *sqlx.Tx, args []any) error { return tx.Select(&[]string{}, "Q", args...) },
	"query row":      func(tx *sqlx.Tx, args []any) error { return tx.QueryRow("Q", args...).Scan(new(string)) },
	"prepared exec":  prepared(func(s *sql.Stmt, args []any) error { _, err := s.Exec(args...); return err }),
	"prepared query": prepared(func(s *sql.Stmt, args []any) error { return s.QueryRow(args...).Scan(new(string)) }),
}

func prepared(run func(*sql.Stmt, []any) error) func(tx *sqlx.Tx, args []any) error {
	return func(tx *sqlx.Tx, args []any) error {
		s, err := tx.Prepare("Q")
		if err != nil {
			return err
		}
		return errors.Join(run(s, args), s.Close())
	}
}

// received is what reached the driver, and what the handler saw.
type received struct {
	log  []string
	args [][]driver.NamedValue
	err  string
}

func receive(s *stand, err error) received {
	if err != nil {
		err = fmt.Errorf("%w", err)
	}
	got := received{args: s.f.arguments(), err: fmt.Sprint(err)}
	got.log = s.f.sent()
	return got
}

// Whatever a driver can and cannot do, it receives the same from a guarded
// transaction as from one of the plain pool, and the handler sees the same.
func TestArgumentsAsOnThePlainPool(t *testing.T) {
	t.Parallel()
	for _, kind := range connKinds {
		for _, stmtKind := range stmtKinds {
			for _, numInput := range []int{-1, 1, 16} {
				t.Run(fmt.Sprintf("%s conn, %s stmt, %d", kind, stmtKind, numInput), func(t *testing.T) {
					t.Parallel()
					s := newStand(t, &fake{kind: kind, stmtKind: stmtKind, numInput: numInput}, guarded.Rules{})
					for way, send := range ways {
						for name, args := range arguments {
							comparePools(s, way+" "+name, func(tx *sqlx.Tx) error { return send(tx, args) })
						}
					}
				})
			}
		}
	}
}

func comparePools(s *stand, name string, send func(tx *sqlx.Tx) error) {
	s.Helper()
	tx, err := s.app.Beginx()
	wantNil(s.T, err)
	s.f.sent()
	plain := receive(s, send(tx))
	wantNil(s.T, tx.Rollback())
	s.f.sent()

	var got received
	end := s.tx(func(tx *sqlx.Tx) error {
		got = receive(s, send(tx))
		return nil
	})
	s.f.sent()
	if !reflect.DeepEqual(got, plain) {
		s.Errorf("%s:\nguarded %+v\nplain   %+v", name, got, plain)
	}
	// A failure that database/sql keeps to itself is the one that nobody sees.
	unseen := strings.HasSuffix(name, "named badly")
	if failed := plain.err != "<nil>"; !unseen && failed != (end != nil) {
		s.Errorf("%s: failed with %s, ended with %v", name, plain.err, end)
	}
}
