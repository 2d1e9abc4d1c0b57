//go:build !race

package slipring_test

const raceBuild = false
