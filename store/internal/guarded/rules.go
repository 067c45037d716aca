package guarded

import "strings"

// Rules say how a database reads statements and which of them would end the
// handler's transaction. The zero value knows standard SQL only.
type Rules struct {
	// Syntax of literals and comments.
	Backslash      bool // '\'' is one quote (MySQL)
	DollarQuotes   bool // $tag$ … $tag$ (PostgreSQL)
	NestedComments bool // /* /* */ */ (PostgreSQL)
	Brackets       bool // [name] (SQLite)
	HashComments   bool // # to the end of the line (MySQL)
	Executable     bool // /*! … */ and /*M! … */ are code (MySQL)

	// EndCommits: END is COMMIT (PostgreSQL, SQLite).
	EndCommits bool
	// ImplicitCommit: DDL and some SET statements commit (MySQL).
	ImplicitCommit bool

	// MaxStatement returns the largest statement that the server takes, in
	// bytes, 0 for no limit; MaxStatementName is the server's name for it.
	MaxStatement     func() int64
	MaxStatementName string
}

// Verdict is what the first words of a query say.
type Verdict struct {
	// Refused names the statement that must not be sent, and Why says what it
	// would do; empty when all may be.
	Refused, Why string
	// RollbackTo: the query is one ROLLBACK TO and nothing else.
	RollbackTo bool
}

const (
	whyEnds     = "it would end the claim's transaction before the guard does; return nil to commit, an error to roll back"
	whyNested   = "the handler is inside the claim's transaction already; use once.Savepoint for a nested one"
	whyImplicit = "the database commits before it, so the claim would be committed without the rest; run it outside the handler"
)

// Judge reads every statement of query, past comments and literals.
func (r Rules) Judge(query string) Verdict {
	s := scanner{rules: r, text: query}
	var verdict Verdict
	for n := 0; s.statement(); n++ {
		if why := r.refuse(s.words); why != "" {
			return Verdict{Refused: strings.Join(s.words[:min(2, len(s.words))], " "), Why: why}
		}
		verdict.RollbackTo = n == 0 && s.words[0] == "ROLLBACK"
	}
	return verdict
}

// refuse says why a statement that begins with words may not be sent. A
// ROLLBACK that it lets pass is a ROLLBACK TO.
func (r Rules) refuse(words []string) string {
	second := at(words, 1)
	switch words[0] {
	case "COMMIT", "ABORT":
		return whyEnds
	case "ROLLBACK":
		if second == "TO" || at(words, 2) == "TO" {
			return ""
		}
		return whyEnds
	case "PREPARE":
		if second == "TRANSACTION" {
			return whyEnds
		}
	case "BEGIN":
		return whyNested
	case "START":
		if second == "TRANSACTION" {
			return whyNested
		}
	case "END":
		if r.EndCommits {
			return whyEnds
		}
	}
	if r.ImplicitCommit {
		return refuseImplicit(words)
	}
	return ""
}

// implicit are the first words after which MySQL or MariaDB has committed.
var implicit = map[string]bool{
	"ALTER": true, "ANALYZE": true, "BACKUP": true, "CACHE": true, "CHANGE": true, "CHECK": true,
	"CREATE": true, "DROP": true, "FLUSH": true, "GRANT": true, "INSTALL": true, "LOCK": true,
	"OPTIMIZE": true, "RENAME": true, "REPAIR": true, "RESET": true, "REVOKE": true, "START": true,
	"STOP": true, "TRUNCATE": true, "UNINSTALL": true, "UNLOCK": true, "XA": true,
}

func refuseImplicit(words []string) string {
	switch words[0] {
	case "CREATE", "DROP":
		// Temporary tables do not commit: CREATE [OR REPLACE] TEMPORARY.
		if at(words, 1) == "TEMPORARY" || at(words, 3) == "TEMPORARY" {
			return ""
		}
	case "LOAD":
		if at(words, 1) == "INDEX" {
			return whyImplicit
		}
	case "SET":
		return refuseSet(words)
	}
	if implicit[words[0]] {
		return whyImplicit
	}
	return ""
}

// refuseSet looks for the variables whose change commits, anywhere in the
// statement, and behind SET STATEMENT … FOR.
func refuseSet(words []string) string {
	for i, w := range words {
		switch {
		case w == "AUTOCOMMIT", w == "PASSWORD" && i == 1:
			return whyImplicit
		case w == "FOR" && at(words, 1) == "STATEMENT" && i+1 < len(words):
			return Rules{ImplicitCommit: true}.refuse(words[i+1:])
		}
	}
	return ""
}

func at(words []string, i int) string {
	if i < len(words) {
		return words[i]
	}
	return ""
}
