package guarded

import "strings"

// Rules say how a database reads statements and which of them would end the
// handler's transaction. The zero value knows standard SQL only.
type Rules struct {
	// Syntax of literals and comments.
	Backslash      bool // '\'' is one quote (MySQL)
	DollarQuotes   bool // $tag$ … $tag$, E'\'', and -- ends with a carriage return too (PostgreSQL)
	NestedComments bool // /* /* */ */ (PostgreSQL)
	Brackets       bool // [name], and U+FEFF is white space (SQLite)
	HashComments   bool // # to the end of the line, and -- only with white space behind it (MySQL)
	Executable     bool // /*! … */ and /*M! … */ are code, for some servers (MySQL)

	// EndCommits: END is COMMIT (PostgreSQL, SQLite).
	EndCommits bool
	// ImplicitCommit: DDL and some SET statements commit (MySQL).
	ImplicitCommit bool

	// MaxStatement returns the largest statement that the server takes, in
	// bytes, 0 for no limit; MaxStatementName is the server's name for it.
	MaxStatement     func() int64
	MaxStatementName string
	// TooLarge reports whether err is the server's word for such a statement.
	// Nil: it has none.
	TooLarge func(err error) bool
}

// Verdict is what the first words of a query say.
type Verdict struct {
	// Refused names the statement that must not be sent, and Why says what it
	// would do; empty when all may be.
	Refused, Why string
	// RollbackTo: the query is one ROLLBACK TO and nothing else.
	RollbackTo bool
	// Copy: the query is one COPY.
	Copy bool
}

const (
	whyEnds     = "it would end the claim's transaction before the guard does; return nil to commit, an error to roll back"
	whyNested   = "the handler is inside the claim's transaction already; use once.Savepoint for a nested one"
	whyImplicit = "the database commits before it, so the claim would be committed without the rest; run it outside the handler"
)

// Judge reads every statement of query, past comments and literals.
func (r Rules) Judge(query string) Verdict {
	s := scanner{rules: r, text: query}
	verdict := s.judge()
	if s.unsure && verdict.Refused == "" {
		// A server that takes the executable comments for plain ones must not
		// find something else behind them.
		plain := scanner{rules: r, text: query, ignore: true}
		verdict = plain.judge()
		verdict.RollbackTo = false
	}
	return verdict
}

func (s *scanner) judge() Verdict {
	var verdict Verdict
	for n := 0; s.statement(); n++ {
		if why := s.rules.refuse(s.words); why != "" {
			return Verdict{Refused: title(s.words), Why: why}
		}
		for _, start := range s.starts {
			words := s.words[start:]
			if len(words) == 0 {
				continue
			}
			if why := s.rules.refuse(words); why != "" {
				return Verdict{Refused: title(words), Why: why}
			}
		}
		verdict.RollbackTo = n == 0 && s.words[0] == "ROLLBACK"
		verdict.Copy = n == 0 && s.words[0] == "COPY"
	}
	return verdict
}

// title is what a statement is called.
func title(words []string) string { return strings.Join(words[:min(2, len(words))], " ") }

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
		return r.refuseImplicit(words)
	}
	return ""
}

func at(words []string, i int) string {
	if i < len(words) {
		return words[i]
	}
	return ""
}
