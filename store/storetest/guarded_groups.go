package storetest

// guardedGroups are the groups that try the handler's transaction: what a
// handler does to it, what happens to its connection, and what a server says
// that nobody expected.
func guardedGroups() []group {
	return []group{
		{"doom", doomScenarios()},
		{"session", sessionScenarios()},
		{"lost", lostScenarios()},
		{"arguments", argScenarios()},
		{"cancel", cancelScenarios()},
		{"swallow", swallowScenarios()},
		{"end", endScenarios()},
		{"limits", limitScenarios()},
		{"texts", textScenarios()},
		{"codes", codeScenarios()},
		{"purge safety", purgeSafetyScenarios()},
		{"migrate safety", migrateSafetyScenarios()},
	}
}

func unless(condition func(Harness) bool) func(Harness) bool {
	return func(h Harness) bool { return !condition(h) }
}
