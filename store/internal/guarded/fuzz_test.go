package guarded_test

import (
	"strings"
	"testing"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

var allRules = map[string]guarded.Rules{
	"standard": {}, "postgres": postgresRules, "mysql": mysqlRules, "sqlite": sqliteRules,
}

// ahead may stand in front of any statement and mean nothing, in each database.
var ahead = []string{" ", "\t\n\r\f", ";", ";;\n", "/* COMMIT; */", "/**/", "-- COMMIT\n", "--\t'\n", "/*'*/", `/* " */`, "/* -- */", "/*;*/;"}

// between are statements that mean no harm, each complete.
var between = map[string][]string{
	"": {
		"SELECT 1", "SELECT 'a'", "SELECT ''", "SELECT 'it''s'", `SELECT "x"`, `SELECT ""`, `SELECT "a""b"`, "SAVEPOINT a",
		"INSERT INTO t VALUES (';')", "SELECT '--', '/*'", "UPDATE t SET a = '*/'", "SELECT a /* ' */ FROM t", "SELECT 1 -- '\n",
		"(SELECT ')')", "SELECT `a`",
	},
	"postgres": {
		"SELECT $$'$$", "SELECT $a$ $b$ ' $a$", `SELECT E'\''`, `SELECT E'''\''`, `SELECT e'\\'`, "SELECT $1", `SELECT '\'`, "SELECT /* /* ' */ */ 1",
		"SELECT E'a'\n'\\''", "SELECT a$b", "SELECT 1::text", "SELECT --'\r1",
	},
	"mysql": {
		`SELECT '\''`, `SELECT "\""`, `SELECT '\\'`, "SELECT 5--1", "SELECT 1 # '\n", "SELECT `a``b`, `\\`", "/*!50000 SELECT 1 */",
		"/*M!100101 SELECT ';' */", "SELECT 1 /*!80000 FOR UPDATE */", "SET a = 1",
	},
	"sqlite": {"SELECT [']", "SELECT [a], [']", `SELECT '\'`, "SELECT ?1, :a, @b, $c", "\ufeffSELECT 1", "INSERT OR ROLLBACK INTO t VALUES (1)"},
}

var ends = []string{"COMMIT", "commit work", "ROLLBACK", "rollback AND CHAIN", "BEGIN", "START TRANSACTION", "ABORT", "Prepare Transaction 'x'"}

// literal quotes text so that it is one literal in the database.
func literal(database string, form byte, text string) string {
	double := func(quote string) string { return quote + strings.ReplaceAll(text, quote, quote+quote) + quote }
	backslash := func(quote string) string {
		return quote + strings.NewReplacer(`\`, `\\`, quote, `\`+quote).Replace(text) + quote
	}
	forms := []func() string{
		func() string { return double(`"`) },
		func() string { return double("'") },
		func() string {
			return "/* " + strings.NewReplacer("*", "", "/", "").Replace(text) + " */"
		},
	}
	switch database {
	case "postgres":
		forms = append(forms,
			func() string { return "E" + backslash("'") },
			func() string { return "$" + strings.ReplaceAll(text, "$", "") + "$" },
			func() string { return "$t$" + strings.ReplaceAll(text, "$t$", "") + "$t$" },
			func() string { return "--" + strings.NewReplacer("\n", "", "\r", "").Replace(text) + "\n" })
		forms[4] = func() string { return "$$" + strings.ReplaceAll(text, "$", "") + "$$" }
	case "mysql":
		forms = []func() string{
			func() string { return backslash(`"`) },
			func() string { return backslash("'") },
			func() string { return double("`") },
			func() string { return "# " + strings.ReplaceAll(text, "\n", "") + "\n" },
			func() string { return "-- " + strings.ReplaceAll(text, "\n", "") + "\n" },
			forms[2],
		}
	case "sqlite":
		forms = append(forms, func() string { return double("`") },
			func() string { return "[" + strings.ReplaceAll(text, "]", "") + "]" })
	}
	return forms[int(form)%len(forms)]()
}

// FuzzJudge builds queries out of parts whose meaning is known.
func FuzzJudge(f *testing.F) {
	f.Add("COMMIT", []byte{0, 1, 2, 3})
	f.Add("'; COMMIT; --", []byte{9, 8, 7, 6, 5, 4})
	f.Add("$$ /* ` [ \\", []byte{1, 1, 1})
	f.Add("/*!50701 x */ /*M! COMMIT */", []byte{255, 3})
	f.Fuzz(func(t *testing.T, text string, choices []byte) {
		next := func() byte {
			if len(choices) == 0 {
				return 0
			}
			c := choices[0]
			choices = choices[1:]
			return c
		}
		for _, database := range []string{"standard", "postgres", "mysql", "sqlite"} {
			rules := allRules[database]
			verdict := verdictOf(rules, text) // whatever it is, it does not panic
			if verdict == "half a verdict" {
				t.Fatalf("%s: %q: %+v", database, text, rules.Judge(text))
			}

			front := ""
			for range next() % 5 {
				front += ahead[int(next())%len(ahead)]
			}
			if got := verdictOf(rules, front+text); got != verdict {
				t.Errorf("%s: %q is %s, behind %q it is %s", database, text, verdict, front, got)
			}

			harmless := append(between[""], between[database]...)
			query := front
			for range next() % 4 {
				query += harmless[int(next())%len(harmless)] + ";" + ahead[int(next())%len(ahead)]
			}
			if got := verdictOf(rules, query); got != allowed {
				t.Errorf("%s: %q is %s", database, query, got)
			}
			quoted := query + "SELECT " + literal(database, next(), text) + " , 1;"
			if got := verdictOf(rules, quoted); got != allowed {
				t.Errorf("%s: %q is %s, though it is in a literal", database, quoted, got)
			}
			ended := quoted + ahead[int(next())%len(ahead)] + ends[int(next())%len(ends)] + ";" + harmless[int(next())%len(harmless)]
			if got := verdictOf(rules, ended); got != refused {
				t.Errorf("%s: %q is %s", database, ended, got)
			}
		}
	})
}
