//go:build long || rows

package testkit

// Long reports whether statistical tests run in all their cases: at full size by the tag
// "long", smaller by the tag "rows".
const Long = true
