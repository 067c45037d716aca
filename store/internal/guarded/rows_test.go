package guarded_test

import (
	"database/sql"
	"database/sql/driver"
	"io"
	"reflect"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// typedRows has every optional interface that there is.
type typedRows struct {
	fakeRows
	sets int
}

func (r *typedRows) ColumnTypeScanType(int) reflect.Type                { return reflect.TypeFor[float32]() }
func (r *typedRows) ColumnTypeDatabaseTypeName(int) string              { return "DECIMAL" }
func (r *typedRows) ColumnTypeLength(int) (int64, bool)                 { return 42, true }
func (r *typedRows) ColumnTypeNullable(int) (bool, bool)                { return true, true }
func (r *typedRows) ColumnTypePrecisionScale(int) (p, s int64, ok bool) { return 7, 3, true }
func (r *typedRows) HasNextResultSet() bool                             { return r.sets > 0 }

func (r *typedRows) NextResultSet() error {
	if r.sets == 0 {
		return io.EOF
	}
	r.sets--
	r.row = 0
	if r.query == "SETS FAIL" {
		return errFake
	}
	return nil
}

var (
	_ driver.RowsNextResultSet              = (*typedRows)(nil)
	_ driver.RowsColumnTypeScanType         = (*typedRows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*typedRows)(nil)
	_ driver.RowsColumnTypeLength           = (*typedRows)(nil)
	_ driver.RowsColumnTypeNullable         = (*typedRows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*typedRows)(nil)
)

// seen is all that a handler can learn from a Rows.
type seen struct {
	columns []string
	types   []any
	values  []string
	sets    int
	err     error
}

func look(rows *sql.Rows) (s seen) {
	defer rows.Close()
	s.columns, _ = rows.Columns()
	types, _ := rows.ColumnTypes()
	for _, c := range types {
		length, hasLength := c.Length()
		precision, scale, hasScale := c.DecimalSize()
		nullable, known := c.Nullable()
		s.types = append(s.types, c.Name(), c.ScanType(), c.DatabaseTypeName(), length, hasLength, precision, scale, hasScale, nullable, known)
	}
	for more := true; more; more = rows.NextResultSet() {
		s.sets++
		for rows.Next() {
			var v string
			_ = rows.Scan(&v)
			s.values = append(s.values, v)
		}
	}
	s.err = rows.Err()
	return s
}

func TestRowsAsOnThePlainPool(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"SELECT", "TYPED", "NIL TYPE", "SETS", "SETS FAIL"} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, &fake{}, guarded.Rules{})
			var plain, got seen
			tx, err := s.app.Beginx()
			wantNil(t, err)
			rows, err := tx.Query(query)
			wantNil(t, err)
			plain = look(rows)
			wantNil(t, tx.Rollback())
			err = s.tx(func(tx *sqlx.Tx) error {
				rows, err := tx.Query(query)
				wantNil(t, err)
				got = look(rows)
				return nil
			})
			if plain.err == nil {
				wantNil(t, err)
			} else {
				wantDoom(t, err, errFake)
			}
			if !reflect.DeepEqual(got, plain) {
				t.Errorf("guarded %+v\nplain   %+v", got, plain)
			}
			if query == "SETS" && got.sets != 3 {
				t.Errorf("%d result sets", got.sets)
			}
			s.wantIdle()
		})
	}
}
