package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
)

// DefaultMigrate bounds [SQL.Migrate] when its context has no deadline.
const DefaultMigrate = 5 * time.Minute

// quickTries is how often a migration that lost a race tries again at once,
// before it takes the loss for something that lasts.
const quickTries = 20

// step is one numbered migration.
type step struct {
	version int
	name    string
	sql     string
}

// steps returns the dialect's migrations in order, filled with our names.
func (s *SQL) steps() ([]step, error) {
	files, err := fs.Glob(s.dialect.Migrations(), "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	steps := make([]step, 0, len(files))
	for i, file := range files { // Glob sorts
		text, err := fs.ReadFile(s.dialect.Migrations(), file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(path.Base(file), ".sql")
		number, _, _ := strings.Cut(name, "_")
		if version, err := strconv.Atoi(number); err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s: want number %04d", file, i+1)
		}
		steps = append(steps, step{version: i + 1, name: name, sql: s.names.Fill(string(text))})
	}
	return steps, nil
}

// Script returns every migration as SQL to be run by another tool, with what
// records that it was applied, and the least grants for role behind them.
func (s *SQL) Script(role string) (string, error) {
	if s.invalid != nil {
		return "", s.invalid
	}
	steps, err := s.steps()
	if err != nil {
		return "", err
	}
	m := s.dialect.Migrator(s.names)
	var b strings.Builder
	fmt.Fprintf(&b, "-- watermill-once, %s: versions 1 to %d\n%s;\n", s.dialect.Name(), len(steps), m.Table)
	for _, st := range steps {
		fmt.Fprintf(&b, "\n-- %s\n%s\n"+m.Record+";\n", st.name, strings.TrimSpace(st.sql), st.version)
	}
	fmt.Fprintf(&b, "\n%s", strings.ReplaceAll(s.names.Fill(s.dialect.Grants()), "{{role}}", role))
	return b.String(), nil
}

// Migrate brings the tables to this library's version. Any number of replicas
// may call it at once, and one that was killed half-way is finished by the
// next. It waits at most seconds for a table, gives way, tries again, and logs
// who may be in its way, until ctx ends (without a deadline: for
// [DefaultMigrate]). When there is nothing to do it only reads. Tables of a
// newer version are refused with [ErrSchema].
func (s *SQL) Migrate(ctx context.Context) error {
	if s.invalid != nil {
		return s.invalid
	}
	if _, ok := ctx.Deadline(); !ok {
		bounded, cancel := context.WithTimeout(ctx, DefaultMigrate)
		defer cancel()
		ctx = bounded
	}
	steps, err := s.steps()
	if err != nil {
		return err
	}
	m := s.dialect.Migrator(s.names)
	for try := 1; ; try++ {
		err := s.migrate(ctx, steps, m)
		switch {
		case err == nil:
			return nil
		case try <= quickTries && m.Race(err) && idle(ctx, rand.N(50*time.Millisecond)) == nil:
			// Another replica was quicker with one table; soon it holds the lock.
			s.logger().DebugContext(ctx, "once: another migration is at work", "try", try, "error", err)
			continue
		case !s.giveWay(err, m):
			return s.notMigrated(err)
		}
		blockers := s.blockers(ctx, m)
		s.logger().WarnContext(ctx, "once: the migration gives way and tries again", "try", try, "error", err, "blockers", blockers)
		if idle(ctx, rand.N(min(5*time.Second, time.Second<<min(try, 3)))+50*time.Millisecond) != nil {
			return fmt.Errorf("%w: migrate: gave up after %d tries: %w (in the way: %s)", ErrUnavailable, try, err, blockers)
		}
	}
}

// notMigrated wraps why a migration ended.
func (s *SQL) notMigrated(err error) error {
	if errors.Is(err, ErrSchema) || errors.Is(err, ErrUnavailable) {
		return err
	}
	what := "migrate"
	if s.options.schema != "" && s.dialect.Fault(err) == FaultMissing {
		what += fmt.Sprintf(": is there a schema %q? Create it, or name another one with WithSchema", s.options.schema)
	}
	return s.unavailable(what, err)
}

// giveWay reports whether trying again may help.
func (s *SQL) giveWay(err error, m Migrator) bool {
	switch s.dialect.Fault(err) {
	case FaultLockWait, FaultBusy, FaultConflict:
		return true
	}
	return m.Race(err)
}

func (s *SQL) migrate(ctx context.Context, steps []step, m Migrator) error {
	version, err := s.version(ctx)
	if err != nil && !errors.Is(err, ErrSchema) {
		return err
	}
	if version == len(steps) {
		return nil
	}
	if version > len(steps) {
		return s.versionError(version, len(steps))
	}
	if err := s.queue.enter(ctx, ownBound); err != nil {
		return err
	}
	defer s.queue.leave()
	return s.pinned(ctx, func(ctx context.Context, conn *sqlx.Conn) (bool, error) {
		for _, bound := range append(m.Bound, m.Table) {
			if _, err := conn.ExecContext(ctx, bound); err != nil {
				return false, err
			}
		}
		keep := len(m.Bound) == 0
		if s.dialect.CommitsDDL() {
			return false, s.apply(ctx, poolQuerier{conn}, steps, m)
		}
		return keep, s.within(ctx, conn, s.options.level, func(q Querier) error { return s.apply(ctx, q, steps, m) })
	})
}

// apply runs the steps that are missing. Where DDL commits by itself each step
// recognises its own trace, so that it may run again after a kill.
func (s *SQL) apply(ctx context.Context, q Querier, steps []step, m Migrator) error {
	if m.Lock != "" {
		if _, err := q.Exec(ctx, m.Lock); err != nil && m.LockRequired {
			return err
		}
	}
	version, err := s.readVersion(ctx, q)
	if err != nil {
		return err
	}
	for _, st := range steps[min(version, len(steps)):] {
		s.logger().InfoContext(ctx, "once: migrate", "step", st.name)
		if _, err := q.Exec(ctx, st.sql); err != nil {
			return fmt.Errorf("migration %s: %w", st.name, err)
		}
		if _, err := q.Exec(ctx, fmt.Sprintf(m.Record, st.version)); err != nil {
			return fmt.Errorf("migration %s: record: %w", st.name, err)
		}
	}
	return nil
}

func (s *SQL) readVersion(ctx context.Context, q Querier) (int, error) {
	var version int64
	_, err := q.QueryRow(ctx, "SELECT COALESCE(MAX(version), 0) FROM "+s.names.Migrations, nil, &version)
	return int(version), err
}

// version returns the version of the tables; ErrSchema when there are none.
func (s *SQL) version(ctx context.Context) (int, error) {
	version, err := s.readVersion(ctx, poolQuerier{s.db})
	switch {
	case err == nil:
		return version, nil
	case s.dialect.Fault(err) == FaultMissing:
		return 0, fmt.Errorf("%w: table %s is missing: call Migrate, or run its Script, before the start; or set the prefix and schema that it was run with", ErrSchema, s.names.Migrations)
	default:
		return 0, s.unavailable("read the schema's version", err)
	}
}

// checkVersion refuses tables of any version but ours.
func (s *SQL) checkVersion(ctx context.Context) error {
	steps, err := s.steps()
	if err != nil {
		return err
	}
	version, err := s.version(ctx)
	if err != nil {
		return err
	}
	if version != len(steps) {
		return s.versionError(version, len(steps))
	}
	return nil
}

func (s *SQL) versionError(found, known int) error {
	if found > known {
		return fmt.Errorf("%w: the tables have version %d, this library knows versions up to %d: deploy the library that migrated them, or a newer one", ErrSchema, found, known)
	}
	return fmt.Errorf("%w: the tables have version %d, this library needs %d: call Migrate, or run the missing part of its Script, before the start", ErrSchema, found, known)
}

// blockers describes who may hold a lock on our tables.
func (s *SQL) blockers(ctx context.Context, m Migrator) string {
	if m.Blockers == "" {
		return "another process that writes the file"
	}
	var found []string
	if err := s.db.SelectContext(ctx, &found, m.Blockers); err != nil || len(found) == 0 {
		return "unknown"
	}
	return strings.Join(found, "; ")
}
