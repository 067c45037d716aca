package sqlite

import (
	"context"
	"errors"
	"strings"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/watermill-once/watermill-once/store"
)

func (dialect) Fault(err error) store.Fault {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return store.FaultNone
	}
	switch e.Code() & 0xff { // without the extension
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return store.FaultBusy
	case lib.SQLITE_READONLY:
		return store.FaultReadOnly
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH, lib.SQLITE_RANGE, lib.SQLITE_TOOBIG, lib.SQLITE_AUTH, lib.SQLITE_MISUSE:
		return store.FaultStatement
	case lib.SQLITE_ERROR:
		// SQLite has no code of its own for a missing table; the text is the
		// library's, in one language, and decides only how the error reads.
		if strings.Contains(e.Error(), "no such table") {
			return store.FaultMissing
		}
		return store.FaultStatement
	default:
		return store.FaultUnknown
	}
}

// CommitRefused: whatever SQLite answers to COMMIT, the session rolled back
// behind it.
func (d dialect) CommitRefused(err error) (bool, store.Fault) {
	var e *sqlite.Error
	return errors.As(err, &e), d.Fault(err)
}

// TableLocked: there is one lock, the file's.
func (dialect) TableLocked(context.Context, store.Querier, *store.Names, error) bool { return false }
