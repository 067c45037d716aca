package once_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// written is what the documentation says about one place.
type written struct{ verdict, means string }

var (
	verdictOf = regexp.MustCompile("^\\*(works|refused|detected|hazard)\\*(?: \\(`(\\w+)`\\))?: .+")
	nameOf    = regexp.MustCompile("^`(\\w+)`$")
)

// readNeighbours parses the table of the section that is about neighbours.
func readNeighbours(t *testing.T, doc string) map[string][2]written {
	t.Helper()
	_, section, ok := strings.Cut(doc, "\n## Watermill's own middlewares\n")
	if !ok {
		t.Fatal("the section is missing")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	table := map[string][2]written{}
	for line := range strings.Lines(section) {
		columns := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if name := nameOf.FindStringSubmatch(strings.TrimSpace(columns[0])); name != nil {
			if len(columns) != 3 {
				t.Fatalf("the row has %d columns: %s", len(columns), line)
			}
			table[name[1]] = [2]written{readCell(t, columns[1]), readCell(t, columns[2])}
		}
	}
	return table
}

func readCell(t *testing.T, text string) written {
	t.Helper()
	found := verdictOf.FindStringSubmatch(strings.TrimSpace(text))
	if found == nil {
		t.Fatalf("a cell begins with its verdict and says why: %q", text)
	}
	return written{found[1], found[2]}
}

// The table in the documentation is the one that TestNeighbours runs.
func TestNeighbours_AreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	table := readNeighbours(t, string(doc))
	for _, n := range neighbours() {
		want := [2]written{
			{n.outside.verdict, n.outside.means},
			{n.inside.verdict, n.inside.means},
		}
		if got, ok := table[n.name]; !ok || got != want {
			t.Errorf("%s: the documentation says %q, the test %q", n.name, got, want)
		}
		delete(table, n.name)
	}
	if len(table) > 0 {
		t.Errorf("documented without a test: %v", table)
	}
}
