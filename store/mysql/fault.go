package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"net"

	driver "github.com/go-sql-driver/mysql"

	"github.com/watermill-once/watermill-once/store"
)

const (
	errDuplicate = 1062 // ER_DUP_ENTRY
	errPacket    = 1153 // ER_NET_PACKET_TOO_LARGE
	errBinlog    = 1665 // InnoDB needs REPEATABLE READ with binlog_format=STATEMENT
	errProxy     = 9006 // ProxySQL
)

// faults places error numbers whose SQLSTATE says too little.
var faults = map[uint16]store.Fault{
	1213:      store.FaultConflict, // deadlock
	1020:      store.FaultConflict, // record changed since last read (innodb_snapshot_isolation)
	1205:      store.FaultLockWait,
	1290:      store.FaultReadOnly, // --read-only and others
	1792:      store.FaultReadOnly, // transaction is READ ONLY
	1836:      store.FaultReadOnly,
	1146:      store.FaultMissing, // no such table
	1049:      store.FaultMissing, // no such database
	1044:      store.FaultRights,  // on the database
	1142:      store.FaultRights,  // on the table
	1143:      store.FaultRights,  // on a column
	errBinlog: store.FaultSettings,
	errProxy:  store.FaultSettings,
	// Known faults of a statement among the general ones (HY000).
	1048: store.FaultStatement,
	1364: store.FaultStatement,
	1366: store.FaultStatement,
	1411: store.FaultStatement,
	1451: store.FaultStatement,
	1452: store.FaultStatement,
	1644: store.FaultStatement, // SIGNAL
	3819: store.FaultStatement, // CHECK constraint, MySQL
	4025: store.FaultStatement, // CHECK constraint, MariaDB
}

func (dialect) Fault(err error) store.Fault {
	if e, ok := errors.AsType[*driver.MySQLError](err); ok {
		if f, ok := faults[e.Number]; ok {
			return f
		}
		switch string(e.SQLState[:2]) {
		case "40":
			return store.FaultConflict
		case "21", "22", "23", "42", "45", "0A":
			return store.FaultStatement
		}
		return store.FaultUnknown
	}
	var network net.Error
	if errors.Is(err, driver.ErrInvalidConn) || errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) {
		return store.FaultConnection
	}
	return store.FaultNone
}

// CommitRefused: the server answered COMMIT with an error that says that it
// rolled back. A duplicate key at COMMIT comes from engines that check there
// (TiDB, Galera): it is the claim of another copy, not the handler's fault.
func (d dialect) CommitRefused(err error) (bool, store.Fault) {
	var e *driver.MySQLError
	if errors.As(err, &e) && e.Number == errDuplicate {
		return true, store.FaultConflict
	}
	fault := d.Fault(err)
	switch fault {
	case store.FaultConflict, store.FaultStatement, store.FaultReadOnly, store.FaultLockWait:
		return true, fault
	}
	return false, fault
}

// TableLocked asks for the table's lock without waiting: a copy in flight
// holds rows and lets a reader pass, a migration does not.
func (dialect) TableLocked(ctx context.Context, q store.Querier, n *store.Names, _ error) bool {
	_, err := q.Exec(ctx, "/*M! SET STATEMENT lock_wait_timeout=0 FOR */ DO (SELECT COUNT(*) FROM "+n.Claims+" WHERE 1 = 0)")
	var e *driver.MySQLError
	return errors.As(err, &e) && e.Number == 1205
}
