package guarded

import "strings"

// scanner splits a query into statements and collects each one's first words,
// past comments, literals and quoted names. It is no parser: it has to find
// COMMIT behind a comment, and not to find it inside a string.
type scanner struct {
	rules Rules
	text  string
	pos   int
	words []string
	array [8]string // most statements need no more
	inner int       // depth of executable comments
}

// enough is how many words decide about any statement but SET, whose variables
// may stand anywhere.
const enough = 4

// statement moves to the next statement that has a word, and reports whether
// there is one.
func (s *scanner) statement() bool {
	for s.pos < len(s.text) {
		s.words = s.array[:0]
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
			s.quoted(c, s.rules.Backslash && c != '`')
		case c == '[' && s.rules.Brackets:
			s.until("]")
		case c == '$' && s.rules.DollarQuotes:
			s.dollar()
		case c == '-' && s.has("--"), c == '#' && s.rules.HashComments:
			s.until("\n")
		case c == '/' && s.has("/*"):
			s.comment()
		case c == '*' && s.inner > 0 && s.has("*/"):
			s.inner--
			s.pos += 2
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
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// word reads one word; a dollar inside is part of it, and an E right before a
// quote makes that a PostgreSQL string with backslashes.
func (s *scanner) word() {
	start := s.pos
	for s.pos < len(s.text) && (isWord(s.text[s.pos]) || s.text[s.pos] == '$') {
		s.pos++
	}
	w := s.text[start:s.pos]
	if s.rules.DollarQuotes && (w == "E" || w == "e") && s.has("'") {
		s.quoted('\'', true)
		return
	}
	if len(s.words) < enough || s.words[0] == "SET" {
		s.words = append(s.words, strings.ToUpper(w))
	}
}

// quoted skips a literal or a quoted name. A doubled quote inside begins, for
// our purpose, another literal at once.
func (s *scanner) quoted(quote byte, backslash bool) {
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch {
		case backslash && s.text[s.pos] == '\\':
			s.pos++
		case s.text[s.pos] == quote:
			s.pos++
			return
		}
	}
	s.pos = min(s.pos, len(s.text))
}

// dollar skips $tag$ … $tag$; a parameter such as $1 is not one.
func (s *scanner) dollar() {
	end := s.pos + 1
	for end < len(s.text) && isWord(s.text[end]) {
		end++
	}
	if end == len(s.text) || s.text[end] != '$' || end > s.pos+1 && '0' <= s.text[s.pos+1] && s.text[s.pos+1] <= '9' {
		s.pos++
		return
	}
	tag := s.text[s.pos : end+1]
	s.pos = end + 1
	s.until(tag)
}

// comment skips a comment, or steps into one that the server executes.
func (s *scanner) comment() {
	if s.rules.Executable && (s.has("/*!") || s.has("/*M!")) {
		s.inner++
		s.pos += strings.IndexByte(s.text[s.pos:], '!') + 1
		for s.pos < len(s.text) && '0' <= s.text[s.pos] && s.text[s.pos] <= '9' {
			s.pos++ // the version from which on it is executed
		}
		return
	}
	if !s.rules.NestedComments {
		s.pos += 2
		s.until("*/")
		return
	}
	for depth := 0; s.pos < len(s.text); {
		switch {
		case s.has("/*"):
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
