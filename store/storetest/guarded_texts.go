package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/watermill-once/watermill-once/store"
)

// textScenarios try the reading of first words on the database itself: it has
// to agree about where comments and literals end.
func textScenarios() []scenario {
	return []scenario{
		{name: "no text that a handler sends commits", on: both(unless(isDirect), unless(isVariant)), run: noTextCommits},
	}
}

func isVariant(h Harness) bool { return h.Variant }

// hidden are texts with a COMMIT that some database executes, and some does
// not. A driver that takes one statement at a time refuses most.
func hidden() []string {
	return []string{
		"COMMIT", "commit work", ";;COMMIT", "/* x */ COMMIT", "-- x\nCOMMIT", "# x\nCOMMIT", "COMMIT--", "COMMIT/**/",
		"SELECT 1; COMMIT", "SELECT 'a;b'; COMMIT", "END", "ROLLBACK", "ROLLBACK; SELECT 1", "ROLLBACK TO nowhere; COMMIT",
		"PREPARE TRANSACTION 'x'", "BEGIN", "START TRANSACTION", "SET autocommit = 1", "SET @x = 1, `autocommit` = 1",
		"CREATE TABLE early (n INT)", "CREATE OR REPLACE TABLE temporary (n INT)", "DROP TABLE IF EXISTS early",
		"/* /* x */ COMMIT", "/* /* x */ */ COMMIT", "*/ COMMIT", "--\rCOMMIT", "SELECT 5--1; COMMIT", "SELECT 5--\t1\n; COMMIT", "SELECT 1--\x01\n; COMMIT",
		"SELECT ''; COMMIT", "SELECT ''''; COMMIT; --'", `SELECT '\'; COMMIT; --'`, `SELECT '\''; COMMIT; SELECT '`, `SELECT '\\'; COMMIT`,
		`SELECT "\""; COMMIT; SELECT "`, "SELECT '/*'; COMMIT; SELECT '*/'", "SELECT '--'; COMMIT", "SELECT 1 AS `\\`; COMMIT; SELECT 1 AS `a`",
		`SELECT E'\''; COMMIT`, `SELECT E'\'; COMMIT; --'`, `SELECT E'''\''; COMMIT; SELECT ''`, "SELECT E'a'\n'\\''; COMMIT; SELECT ''",
		"SELECT E'a' -- x\n -- y\n'\\''; COMMIT; SELECT ''", "SELECT E'a' '\\'; COMMIT --'", `SELECT U&'\'; COMMIT; --'`,
		"SELECT $$;$$; COMMIT", "SELECT $a$ $a$; COMMIT", "SELECT $a$ $b$; COMMIT; $a$", "SELECT 1$a$'$a$; COMMIT; --'", "SELECT 1 AS a$b$; COMMIT; SELECT 1 AS c$b$",
		"SELECT 1 AS [']; COMMIT; SELECT 1 AS [']", "\ufeffCOMMIT", "\ufeff; \ufeffCOMMIT\ufeff",
		"/*! COMMIT */", "/*!50000 COMMIT */", "/*M! COMMIT */", "/*M!100101 COMMIT*/", "/*!999999 x */ COMMIT", "/*!999999 x */ /*!50000 COMMIT */",
		"ROLLBACK /*!999999 TO a */", "/*!999999 ' */ COMMIT -- '", "/*!50000 SELECT /* x */ 1 */; COMMIT", "/*M! SET STATEMENT lock_wait_timeout=1 FOR */ COMMIT",
		"SET STATEMENT lock_wait_timeout=1 FOR COMMIT", "BEGIN NOT ATOMIC COMMIT; END", "IF 1 THEN COMMIT; END IF", "IF 0 THEN SELECT 1; ELSE COMMIT; END IF",
		"x: LOOP COMMIT; LEAVE x; END LOOP", "WHILE 0 DO SELECT 1; END WHILE; COMMIT",
	}
}

// soup makes texts of pieces that are hard to read.
func soup(n int) []string {
	pieces := []string{
		"'", "'", "''", `"`, "`", `\`, `\'`, "--", "-- ", "--\r", "\n", "\r", "#", "/*", "*/", "/*!", "/*!50000 ", "/*!99999 ", "/*M!", "$$", "$a$", "1$a$", "a$",
		"E'", "e'", "U&'", "N'", "x'", "[", "]", ";", " ", "1", "a", "$1", "\ufeff", "\u00a0", "\v", "\f", "(", ")", "::", "%", "SELECT 1",
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same every time
	some := func(most int) (text string) {
		for range 1 + random.IntN(most) {
			text += pieces[random.IntN(len(pieces))]
		}
		return text
	}
	var texts []string
	for range n {
		switch random.IntN(4) {
		case 0:
			texts = append(texts, "SELECT '"+some(4)+"'"+some(3)+"; COMMIT; SELECT '"+some(3)+"'")
		case 1:
			texts = append(texts, "SELECT "+some(3)+"'"+some(3)+"';COMMIT; "+some(3))
		case 2:
			texts = append(texts, some(4)+"COMMIT"+some(4))
		default:
			texts = append(texts, "SELECT 1"+some(4)+";COMMIT"+some(2))
		}
	}
	return texts
}

// noTextCommits: whatever a handler sends, what it returns decides.
func noTextCommits(t testing.TB, h Harness) {
	p := open(t, h, 1)
	boom := errors.New("boom")
	for i, text := range slices.Concat(hidden(), soup(rounds(t, 60))) {
		_, err := p.run(p.patient(fmt.Sprint(i)), func(ctx context.Context, tx *sqlx.Tx) error {
			if err := addEffect(ctx, tx, "leaked"); err != nil {
				return err
			}
			_, _ = tx.ExecContext(ctx, text)
			return boom
		})
		if !errors.Is(err, boom) {
			t.Errorf("%q: %v", text, err)
		}
		if p.number("SELECT COUNT(*) FROM once_claims") > 0 || p.number("SELECT COUNT(*) FROM effects") > 0 {
			t.Fatalf("%q committed", text)
		}
	}
	// Nor does one that is allowed keep a good attempt from committing.
	for i, text := range []string{"SELECT 'COMMIT'", "/* COMMIT; */ SELECT 1", "SAVEPOINT a", `SELECT 'it''s; COMMIT;' AS "; COMMIT"`} {
		r, err := p.run(store.Claim{Consumer: consumer, Key: strings.Repeat("x", i+1)}, func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, text)
			return err
		})
		isNew(t, r, err)
	}
	PoolIdle(t, p.s.DB().DB)
}
