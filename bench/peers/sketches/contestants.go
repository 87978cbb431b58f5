package main

import (
	"fmt"
	"strconv"
	"strings"
)

// limit is the units per key and window that all limiters allow.
const limit = 100

// sketch counts units of keys, which it knows by their hashes.
type sketch interface {
	estimate(h uint64) uint32
	add(h uint64, estimate uint32) // a unit of a key, whose estimate was just read
	clear()
	bits() int // of all that its arrays hold
}

// setting is the numbers by which a contestant's memory is arranged.
type setting []int

func (s setting) String() string {
	text := make([]string, len(s))
	for i, v := range s {
		text[i] = strconv.Itoa(v)
	}
	return strings.Join(text, ",")
}

// contestant is a sketch that takes part.
type contestant struct {
	name     string
	means    string // what the numbers of a setting are
	oneSided bool   // it never counts too little
	build    func(bytes int, s setting) sketch
	settings []setting // that the search tries
}

// literature are the contestants that are written from their papers.
var literature = []contestant{
	{"count-min", "rows", true, newCountMin, []setting{{2}, {3}, {4}}},
	{"CU", "rows", true, newConservative, []setting{{3}, {4}, {5}}},
	{"SALSA", "rows, bits of a cell", true, newSalsa, []setting{{4, 2}, {5, 2}, {6, 2}, {4, 4}, {5, 4}, {6, 4}, {5, 1}}},
	{"Tower", "bits of the levels", true, newTower, []setting{{488}, {2488}, {4488}, {4888}, {48888}}},
	{"ColdFilter", "bits of a cell, % first layer, % second", true, newColdFilter,
		[]setting{{4, 40, 0}, {4, 50, 0}, {2, 30, 0}, {2, 40, 30}, {4, 50, 25}}},
	{"Elastic", "bytes of an entry, % heavy, light rows", true, newElastic,
		[]setting{{3, 25, 1}, {3, 50, 1}, {4, 50, 1}, {3, 25, 3}}},
	{"HeavyKeeper", "rows, bytes of an entry, decay %", false, newHeavyKeeper,
		[]setting{{2, 2, 108}, {2, 2, 150}, {2, 2, 200}, {2, 2, 300}}},
	{"Pyramid", "rows, layers", true, newPyramid, []setting{{3, 3}, {4, 3}, {5, 3}, {6, 3}, {4, 4}}},
	{"ReliableSketch", "bytes of a bucket, bits of the filter, % filter, error", true, newReliable,
		[]setting{{3, 4, 50, 25}, {3, 4, 50, 50}, {3, 4, 75, 15}, {3, 4, 75, 25}, {4, 4, 75, 50}}},
	{"cuckoo+CU", "bytes of an entry, % table, threshold", true, newCuckoo,
		[]setting{{3, 25, 1}, {3, 35, 1}, {3, 50, 1}, {3, 15, 8}, {4, 25, 16}}},
}

// title is the name of this library in the tables.
const title = "sketchlimit"

// pin leaves a contestant one setting: "NAME:NUMBERS", in the form of the tables.
func pin(contestants []contestant, text string) error {
	name, numbers, _ := strings.Cut(text, ":")
	for i := range contestants {
		c := &contestants[i]
		if c.name != name {
			continue
		}
		var s setting
		for _, n := range strings.Split(numbers, ",") {
			v, err := strconv.Atoi(n)
			if err != nil {
				return fmt.Errorf("%s: setting %q, must be %d numbers: %s", name, numbers, len(c.settings[0]), c.means)
			}
			s = append(s, v)
		}
		if len(s) != len(c.settings[0]) {
			return fmt.Errorf("%s: setting %q, must be %d numbers: %s", name, numbers, len(c.settings[0]), c.means)
		}
		c.settings = []setting{s}
		return nil
	}
	return fmt.Errorf("contestant %q: unknown", name)
}
