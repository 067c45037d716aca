package guarded

// implicit are the first words after which MySQL or MariaDB has committed.
var implicit = map[string]bool{
	"ALTER": true, "BACKUP": true, "CACHE": true, "CHANGE": true, "CHECK": true,
	"CREATE": true, "DROP": true, "FLUSH": true, "GRANT": true, "INSTALL": true,
	"OPTIMIZE": true, "RENAME": true, "REPAIR": true, "RESET": true, "REVOKE": true, "START": true,
	"STOP": true, "TRUNCATE": true, "UNINSTALL": true, "UNLOCK": true, "XA": true,
}

// tables are first words that commit only with one of these behind them: a
// LOCK IN SHARE MODE is no statement, ANALYZE SELECT only explains one.
var tables = map[string]map[string]bool{
	"LOCK":    {"TABLE": true, "TABLES": true, "INSTANCE": true},
	"ANALYZE": {"TABLE": true, "TABLES": true, "LOCAL": true, "NO_WRITE_TO_BINLOG": true},
	"LOAD":    {"INDEX": true},
}

// compound are the words with which MariaDB begins a part of a compound
// statement, after a label or not, and behind are those after which a statement
// begins in it. Semicolons part the others.
var (
	compound = map[string]bool{
		"IF": true, "CASE": true, "LOOP": true, "WHILE": true, "REPEAT": true, "FOR": true,
		"ELSE": true, "ELSEIF": true, "WHEN": true,
	}
	behind = map[string]bool{"THEN": true, "ELSE": true, "DO": true, "LOOP": true, "REPEAT": true}
)

func (r Rules) refuseImplicit(words []string) string {
	first, second := words[0], at(words, 1)
	switch {
	case first == "CREATE" || first == "DROP":
		// Temporary tables do not commit: CREATE [OR REPLACE] TEMPORARY.
		if second == "TEMPORARY" || second == "OR" && at(words, 3) == "TEMPORARY" {
			return ""
		}
	case first == "SET":
		return r.refuseSet(words)
	case compound[first], compound[second] && second != "IF" && second != "CASE":
		return r.refuseCompound(words)
	case second == "BEGIN" && at(words, 2) == "NOT": // label: BEGIN NOT ATOMIC
		return whyNested
	}
	if implicit[first] || tables[first][second] {
		return whyImplicit
	}
	return ""
}

// refuseSet looks for the variables whose change commits, anywhere in the
// statement, and behind SET STATEMENT … FOR.
func (r Rules) refuseSet(words []string) string {
	for i, w := range words {
		switch {
		case w == "AUTOCOMMIT", w == "PASSWORD" && i == 1:
			return whyImplicit
		case w == "FOR" && at(words, 1) == "STATEMENT" && i+1 < len(words):
			return r.refuse(words[i+1:])
		}
	}
	return ""
}

func (r Rules) refuseCompound(words []string) string {
	for i, w := range words {
		if !behind[w] || i+1 == len(words) {
			continue
		}
		if why := r.refuse(words[i+1:]); why != "" {
			return why
		}
	}
	return ""
}

// longer reports whether a statement that begins with words is judged by all of
// its words and not by the first few.
func (r Rules) longer(words []string) bool {
	if !r.ImplicitCommit || len(words) == 0 {
		return false
	}
	return words[0] == "SET" || compound[words[0]] || compound[at(words, 1)]
}
