package mysql

import (
	"io/fs"
	"strings"
	"testing"
)

// C22: MySQL refuses byte strings in JSON columns, and claims travel as hex
// literals. There is none to write to.
func TestC22_NoColumnIsJSON(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(migrations, file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "--") && strings.Contains(strings.ToUpper(line), "JSON") {
				t.Errorf("%s: %s", file, strings.TrimSpace(line))
			}
		}
	}
}
