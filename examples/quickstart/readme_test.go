package main

import (
	"os"
	"strings"
	"testing"
)

// The README shows this program, so it has to be this program.
func TestTheReadmeShowsThisProgram(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "<!-- examples/quickstart/main.go -->\n```go\n")
	shown, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("README.md has no block marked <!-- examples/quickstart/main.go -->")
	}
	if !strings.Contains(string(program), strings.TrimSpace(shown)) {
		t.Error("the README's quick start is not part of main.go: copy it again")
	}
}
