package mysql

import "testing"

// Durability that the server was told to give up: its settings are global, so
// no test here can change them on a server.
func TestDurabilityThatIsGivenUpIsFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings map[string]string
		found    []string
	}{
		"default":         {map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin": "OFF", "sync_binlog": "0"}, nil},
		"each second":     {map[string]string{"innodb_flush_log_at_trx_commit": "2", "log_bin": "OFF"}, []string{"innodb_flush_log_at_trx_commit"}},
		"never":           {map[string]string{"innodb_flush_log_at_trx_commit": "0"}, []string{"innodb_flush_log_at_trx_commit"}},
		"binlog unsynced": {map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON", "sync_binlog": "0"}, []string{"sync_binlog"}},
		"binlog synced":   {map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON", "sync_binlog": "1"}, nil},
	} {
		findings := durability(test.settings)
		if len(findings) != len(test.found) {
			t.Errorf("%s: %+v", name, findings)
			continue
		}
		for i, f := range findings {
			if f.Setting != test.found[i] || f.Value == "" || f.Problem == "" || f.Fix == "" {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}
