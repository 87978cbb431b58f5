//go:build !race

package httplimit_test

const poolForgets = false
