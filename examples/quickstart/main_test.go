package main

// The payment of 30 was delivered twice.
func Example() {
	main()
	// Output: balance: 70
}
