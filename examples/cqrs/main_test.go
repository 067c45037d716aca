package main

// Every message came twice, the first event could not be sent at first, and the
// second order failed after it was written.
func Example() {
	main()
	// Output:
	// order 1: hat
	// order 3: hat
	// 2 sold: hat
	// mail for 1
	// mail for 3
}
