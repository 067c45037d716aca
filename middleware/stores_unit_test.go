//go:build !integration

package once_test

func serverStores() []storeKind { return nil }
