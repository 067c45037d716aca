//go:build !integration

package oncecqrs_test

func serverStores() []storeKind { return nil }
