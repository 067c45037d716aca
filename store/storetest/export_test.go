package storetest

// The helpers that wait, with less patience.
var (
	PoolIdleWithin = poolIdle
	LeaksWithin    = leaks
)
