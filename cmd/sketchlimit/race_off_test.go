//go:build !race

package main

const embeddedAbove = 0 // default: all keys are judged

const raced = false
