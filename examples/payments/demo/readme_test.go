package main

import (
	"os"
	"strings"
	"testing"
)

// The README shows what a run printed, so it has to be what a run prints now.
// The numbers are those of its run.
func TestTheReadmeShowsTheseTables(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "<!-- make demo -->\n```\n")
	shown, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("README.md has no block marked <!-- make demo -->")
	}
	if !lastLine.MatchString(shown) {
		t.Errorf("the README's run does not end like %s", lastLine)
	}
	for _, header := range [][][]string{header, receiptHeader} {
		for _, line := range header {
			if !strings.Contains(squeezed(shown), squeezed(strings.Join(line, " "))) {
				t.Errorf("the README's tables do not have the line %q: copy them again", line)
			}
		}
	}
	for _, g := range guardings {
		rowOf(t, shown, g)
	}
}

// squeezed has one blank for many.
func squeezed(s string) string { return strings.Join(strings.Fields(s), " ") }
