package guarded

import (
	"strconv"
	"strings"
)

// scanner splits a query into statements and collects each one's first words,
// past comments, literals and quoted names. It is no parser: it has to find
// COMMIT behind a comment, and not to find it inside a string.
type scanner struct {
	rules Rules
	text  string
	pos   int
	words []string
	array [8]string // most statements need no more

	long   bool  // all words decide, see longer
	inner  int   // depth of executable comments
	starts []int // where, among words, one begins or ends that not every server executes
	unsure bool  // there was such a comment
	ignore bool  // they are comments
}

// enough is how many words decide about most statements; see longer.
const enough = 4

// statement moves to the next statement that has a word, and reports whether
// there is one.
func (s *scanner) statement() bool {
	for s.pos < len(s.text) {
		s.words, s.starts, s.long = s.array[:0], nil, false
		s.read()
		if len(s.words) > 0 {
			return true
		}
	}
	return false
}

// read consumes one statement with its semicolon.
func (s *scanner) read() {
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch {
		case c == ';':
			s.pos++
			return
		case isWord(c):
			s.word()
		case c == '\'' || c == '"' || c == '`':
			s.name(c, s.quoted(c, s.rules.Backslash && c != '`'))
		case c == '[' && s.rules.Brackets:
			s.until("]")
		case c == '$' && s.rules.DollarQuotes:
			s.dollar()
		case c == '-' && s.lineComment(), c == '#' && s.rules.HashComments:
			s.line()
		case c == '/' && s.has("/*"):
			s.comment()
		case c == '*' && s.inner > 0 && s.has("*/"):
			s.inner--
			s.pos += 2
			s.boundary()
		default:
			s.pos++
		}
	}
}

func (s *scanner) has(prefix string) bool { return strings.HasPrefix(s.text[s.pos:], prefix) }

// until skips past the next mark, or to the end.
func (s *scanner) until(mark string) {
	i := strings.Index(s.text[s.pos:], mark)
	if i < 0 {
		s.pos = len(s.text)
		return
	}
	s.pos += i + len(mark)
}

func isWord(c byte) bool {
	return c == '_' || c >= 0x80 || isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

const byteOrderMark = "\ufeff"

// word reads one word. A dollar is part of a name but not of a number, and an E
// right before a quote makes that a PostgreSQL string with backslashes.
func (s *scanner) word() {
	if s.rules.Brackets && s.has(byteOrderMark) {
		s.pos += len(byteOrderMark)
		return
	}
	start, name := s.pos, !isDigit(s.text[s.pos])
	for s.pos < len(s.text) && (isWord(s.text[s.pos]) || name && s.text[s.pos] == '$') {
		if s.rules.Brackets && s.has(byteOrderMark) {
			break
		}
		s.pos++
	}
	w := s.text[start:s.pos]
	if s.rules.DollarQuotes && (w == "E" || w == "e") && s.has("'") {
		s.escaped()
		return
	}
	s.add(w)
}

func (s *scanner) add(word string) {
	if len(s.words) == enough && !s.long && !s.unsure {
		return
	}
	s.words = append(s.words, strings.ToUpper(word))
	if len(s.words) <= 2 {
		s.long = s.rules.longer(s.words)
	}
}

// name keeps what stands in backquotes where it may be a variable: SET
// `autocommit` = 0.
func (s *scanner) name(quote byte, text string) {
	if quote == '`' && len(s.words) > 0 && s.words[0] == "SET" {
		s.add(text)
	}
}

// quoted skips a literal or a quoted name, and returns what stands in it.
func (s *scanner) quoted(quote byte, backslash bool) string {
	start := s.pos + 1
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch {
		case backslash && s.text[s.pos] == '\\':
			s.pos++
		case s.text[s.pos] != quote:
		case s.pos+1 < len(s.text) && s.text[s.pos+1] == quote:
			s.pos++ // doubled, it stands for itself
		default:
			s.pos++
			return s.text[start : s.pos-1]
		}
	}
	s.pos = len(s.text)
	return s.text[min(start, s.pos):]
}

// escaped skips an E'…', which goes on behind a line break with another quote.
func (s *scanner) escaped() {
	for {
		s.quoted('\'', true)
		end, broken := s.pos, false
		for s.pos < len(s.text) && !s.has("'") {
			switch c := s.text[s.pos]; {
			case c == '\n' || c == '\r':
				broken = true
				s.pos++
			case c == ' ' || c == '\t' || c == '\f' || c == '\v':
				s.pos++
			case s.has("--"):
				s.line()
				broken = true
			default:
				s.pos = end
				return
			}
		}
		if !broken || s.pos == len(s.text) {
			s.pos = end
			return
		}
	}
}

// dollar skips $tag$ … $tag$; a parameter such as $1 is not one.
func (s *scanner) dollar() {
	end := s.pos + 1
	for end < len(s.text) && isWord(s.text[end]) {
		end++
	}
	if end == len(s.text) || s.text[end] != '$' || isDigit(s.text[s.pos+1]) {
		s.pos++
		return
	}
	tag := s.text[s.pos : end+1]
	s.pos = end + 1
	s.until(tag)
}

// lineComment: in MySQL 5--1 is 6.
func (s *scanner) lineComment() bool {
	if !s.has("--") {
		return false
	}
	return !s.rules.HashComments || s.pos+2 == len(s.text) || s.text[s.pos+2] <= ' ' || s.text[s.pos+2] == 0x7f
}

// line skips the rest of the line.
func (s *scanner) line() {
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		s.pos++
		if c == '\n' || c == '\r' && s.rules.DollarQuotes {
			return
		}
	}
}

// comment skips a comment, or steps into one that the server executes.
func (s *scanner) comment() {
	executable := s.rules.Executable && (s.has("/*!") || s.has("/*M!"))
	if executable && s.execute() {
		return
	}
	nested := s.rules.NestedComments || executable
	for depth := 0; s.pos < len(s.text); {
		switch {
		case s.has("/*") && (nested || depth == 0):
			depth++
			s.pos += 2
		case s.has("*/"):
			depth--
			s.pos += 2
			if depth == 0 {
				return
			}
		default:
			s.pos++
		}
	}
}

// always is the version that every server has that speaks to us: those up to
// it are executed by MySQL 8 and by MariaDB, which leaves out 50700 to 50999.
const always = 50700

// execute steps into an executable comment, and reports whether it did.
func (s *scanner) execute() bool {
	mark := s.pos + strings.IndexByte(s.text[s.pos:], '!') + 1
	end := mark
	for end < len(s.text) && end < mark+6 && isDigit(s.text[end]) {
		end++
	}
	version, _ := strconv.Atoi(s.text[mark:end])
	if s.has("/*M!") || version >= always {
		s.unsure = true
		if s.ignore {
			return false
		}
	}
	s.inner++
	s.pos = end
	s.boundary()
	return true
}

// boundary marks where a statement may begin, if something before it is not
// executed.
func (s *scanner) boundary() {
	if s.unsure {
		s.starts = append(s.starts, len(s.words))
	}
}
