package guarded

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// each stores every row in dest and calls row for it, until that wants no more,
// and reads the rest of the answer, where an error may still hide.
func each(r driver.Rows, dest []any, row func() (more bool, err error)) error {
	values := make([]driver.Value, len(r.Columns()))
	for more := true; ; {
		switch err := r.Next(values); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case !more:
			continue
		}
		if len(values) < len(dest) {
			return fmt.Errorf("%d columns for %d values", len(values), len(dest))
		}
		for i, d := range dest {
			if err := assign(d, values[i]); err != nil {
				return fmt.Errorf("column %d: %w", i+1, err)
			}
		}
		var err error
		if more, err = row(); err != nil {
			return err
		}
	}
}

// assign stores v in dest. NULL leaves dest as it is.
func assign(dest any, v driver.Value) error {
	if v == nil {
		return nil
	}
	switch d := dest.(type) {
	case *[]byte:
		switch v := v.(type) {
		case []byte:
			*d = append([]byte(nil), v...)
			return nil
		case string:
			*d = []byte(v)
			return nil
		}
	case *string:
		switch v := v.(type) {
		case []byte:
			*d = string(v)
			return nil
		case string:
			*d = v
			return nil
		}
	case *int64:
		return assignInt(d, v)
	case *bool:
		if b, ok := v.(bool); ok {
			*d = b
			return nil
		}
		var n int64
		err := assignInt(&n, v)
		*d = n != 0
		return err
	}
	return fmt.Errorf("cannot store %T in %T", v, dest)
}

func assignInt(d *int64, v driver.Value) (err error) {
	switch v := v.(type) {
	case int64:
		*d = v
	case []byte:
		*d, err = strconv.ParseInt(string(v), 10, 64)
	case string:
		*d, err = strconv.ParseInt(v, 10, 64)
	default:
		err = fmt.Errorf("cannot read %T as a number", v)
	}
	return err
}
