package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/watermill-once/watermill-once/store"
)

// sqlState is how both drivers show the server's code.
type sqlState interface{ SQLState() string }

func (dialect) Fault(err error) store.Fault {
	var s sqlState
	if errors.As(err, &s) {
		return faultOf(s.SQLState())
	}
	var network net.Error
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) {
		return store.FaultConnection
	}
	return store.FaultNone
}

// faultOf places an SQLSTATE: single codes first, then its class.
func faultOf(code string) store.Fault {
	switch code {
	case "55P03":
		return store.FaultLockWait
	case "25006":
		return store.FaultReadOnly
	case "42P01", "3F000":
		return store.FaultMissing
	case "42501":
		return store.FaultRights
	case "":
		return store.FaultUnknown
	}
	switch code[:2] {
	case "40":
		return store.FaultConflict
	case "0A", "21", "22", "23", "27", "2B", "2F", "38", "39", "3B", "42", "44", "P0":
		return store.FaultStatement
	}
	return store.FaultUnknown
}

// CommitRefused: the server answered COMMIT with an error, or with ROLLBACK,
// and the connection lives. An answer of class 57 (shutdown, cancel) does not
// say how far the commit came.
func (d dialect) CommitRefused(err error) (bool, store.Fault) {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return true, store.FaultStatement
	}
	fault := d.Fault(err)
	switch fault {
	case store.FaultConflict, store.FaultStatement, store.FaultReadOnly, store.FaultLockWait:
		return true, fault
	}
	return false, fault
}

// TableLocked: a wait for a row that another transaction inserted has a
// context ("while inserting index tuple …"); a wait for the table has none. It
// is there or not in every language.
func (dialect) TableLocked(_ context.Context, _ store.Querier, _ *store.Names, err error) bool {
	if native, ok := errors.AsType[*pgconn.PgError](err); ok {
		return native.Where == ""
	}
	var fields interface{ Get(byte) string } // lib/pq
	return errors.As(err, &fields) && fields.Get('W') == ""
}
