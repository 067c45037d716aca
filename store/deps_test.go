package store_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The core links no driver, no broker client and no metrics library: whoever
// imports it chooses those.
func TestTheCoreImportsNoDriverAndNoBroker(t *testing.T) {
	t.Parallel()
	const module = "github.com/watermill-once/watermill-once"
	for pkg, forbidden := range map[string][]string{
		module + "/store":           {"ThreeDotsLabs/watermill"},
		module + "/store/storetest": {"ThreeDotsLabs/watermill", "stretchr/testify"},
		module + "/middleware":      nil,
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", pkg, err)
		}
		forbidden = append(forbidden, "jackc/pgx", "lib/pq", "go-sql-driver", "modernc.org/sqlite",
			"IBM/sarama", "amqp091-go", "aws-sdk-go", "prometheus", "opentelemetry",
			module+"/store/postgres", module+"/store/mysql", module+"/store/sqlite")
		for dep := range strings.FieldsSeq(string(out)) {
			for _, f := range forbidden {
				if strings.Contains(dep, f) && !strings.HasPrefix(pkg, dep) {
					t.Errorf("%s reaches %s", pkg, dep)
				}
			}
		}
	}
}
