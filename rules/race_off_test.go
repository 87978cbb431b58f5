//go:build !race

package rules_test

const poolForgets = false
