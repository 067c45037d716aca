package once_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestImports keeps drivers and broker clients out of what every user links.
func TestImports(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		for _, no := range []string{
			"jackc/", "lib/pq", "go-sql-driver/", "modernc.org/", "mattn/go-sqlite3", "sarama", "amqp091", "aws-sdk",
			"watermill-kafka", "watermill-amqp", "watermill-sql", "watermill-aws", "pubsub/gochannel", "prometheus", "opentelemetry",
			"watermill-once/store/", "testing",
		} {
			if strings.Contains(dep, no) && dep != "github.com/watermill-once/watermill-once/store/internal/guarded" {
				t.Errorf("the core imports %s", dep)
			}
		}
	}
}
