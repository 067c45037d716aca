package store

import (
	"fmt"
	"regexp"
	"strings"
)

// DefaultPrefix begins the name of every table of ours.
const DefaultPrefix = "once_"

// identifier is what a prefix or a schema may be: names that need no thought
// about case or quoting on any of the databases.
var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,31}$`)

// Names are the tables of one store, quoted for its database.
type Names struct {
	Prefix, Schema string

	Claims, Outputs, State, Migrations, View string

	replacer *strings.Replacer
}

func newNames(prefix, schema string, quote func(string) string) (*Names, error) {
	if !identifier.MatchString(prefix) {
		return nil, fmt.Errorf("%w: table prefix %q: use lower-case letters, digits and _, not beginning with a digit, at most 32", ErrInvalid, prefix)
	}
	if schema != "" && !identifier.MatchString(schema) {
		return nil, fmt.Errorf("%w: schema %q: use lower-case letters, digits and _, not beginning with a digit, at most 32", ErrInvalid, schema)
	}
	table := func(name string) string {
		if schema == "" {
			return quote(prefix + name)
		}
		return quote(schema) + "." + quote(prefix+name)
	}
	n := &Names{
		Prefix: prefix, Schema: schema,
		Claims: table("claims"), Outputs: table("outputs"), State: table("state"),
		Migrations: table("migrations"), View: table("claims_text"),
	}
	n.replacer = strings.NewReplacer(
		"{{claims}}", n.Claims, "{{outputs}}", n.Outputs, "{{state}}", n.State,
		"{{migrations}}", n.Migrations, "{{view}}", n.View, "{{prefix}}", prefix,
	)
	return n, nil
}

// Fill replaces the placeholders {{claims}}, {{outputs}}, {{state}},
// {{migrations}}, {{view}} and {{prefix}} of an SQL template.
func (n *Names) Fill(template string) string { return n.replacer.Replace(template) }
