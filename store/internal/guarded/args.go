package guarded

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
)

// convert converts an argument as database/sql would for the application's own
// connection, in the same order, so that arguments of every type behave as on
// its pool. s is nil for a statement that is not prepared. One that cannot be
// converted is a failed statement.
func (c *Conn) convert(nv *driver.NamedValue, s driver.Stmt) (err error) {
	returned := false
	defer func() {
		switch {
		case !returned: // a panic or a Goexit in a Valuer
			_ = c.fail(fmt.Errorf("argument %d was not converted: a panic or a Goexit went through it", nv.Ordinal), false)
		case err != nil && err != driver.ErrRemoveArgument && err != driver.ErrSkip: //nolint:errorlint // as database/sql asks
			_ = c.fail(fmt.Errorf("argument %d: %w", nv.Ordinal, err), false)
		}
	}()
	err = c.converted(nv, s)
	returned = true
	return err
}

func (c *Conn) converted(nv *driver.NamedValue, s driver.Stmt) error {
	checker, ok := s.(driver.NamedValueChecker)
	if !ok {
		checker, ok = c.raw.(driver.NamedValueChecker)
	}
	if ok {
		if err := checker.CheckNamedValue(nv); err != driver.ErrSkip { //nolint:errorlint // as database/sql asks
			return err
		}
	}
	if columns, ok := s.(driver.ColumnConverter); ok { //nolint:staticcheck // older drivers
		if err := convertColumn(nv, columns, s.NumInput()); err != driver.ErrSkip { //nolint:errorlint // as database/sql asks
			return err
		}
	}
	var err error
	nv.Value, err = driver.DefaultParameterConverter.ConvertValue(nv.Value)
	return err
}

// convertColumn is database/sql's ccChecker.
func convertColumn(nv *driver.NamedValue, columns driver.ColumnConverter, want int) error { //nolint:staticcheck // older drivers
	index := nv.Ordinal - 1
	if want >= 0 && want <= index {
		return nil // too many: the count will tell
	}
	if valuer, ok := nv.Value.(driver.Valuer); ok {
		v, err := valueOf(valuer)
		if err != nil {
			return err
		}
		if !driver.IsValue(v) {
			return fmt.Errorf("non-subset type %T returned from Value", v)
		}
		nv.Value = v
	}
	arg := nv.Value
	v, err := columns.ColumnConverter(index).ConvertValue(arg)
	if err != nil {
		return err
	}
	if !driver.IsValue(v) {
		return fmt.Errorf("driver ColumnConverter error converted %T to unsupported type %T", arg, v)
	}
	nv.Value = v
	return nil
}

// valueOf lets a nil pointer, whose method is its element's, be NULL.
func valueOf(v driver.Valuer) (driver.Value, error) {
	rv := reflect.ValueOf(v)
	if rv.Kind() == reflect.Pointer && rv.IsNil() && rv.Type().Elem().Implements(reflect.TypeFor[driver.Valuer]()) {
		return nil, nil
	}
	return v.Value()
}

// plainValues is for drivers that know neither names nor contexts.
func plainValues(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, a := range args {
		if a.Name != "" {
			return nil, errors.New("sql: driver does not support the use of Named Parameters")
		}
		values[i] = a.Value
	}
	return values, ctx.Err()
}
