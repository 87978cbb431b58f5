package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

const (
	limit    = 100
	minKeys  = 10_000
	maxKeys  = 100_000_000
	textKeys = 1_000_000 // of the sizes in the description
)

// peerNames are the limiters of notes/tables/peers.md that keep an entry for each key.
var peerNames = []string{"ulule/limiter", "x/time/rate", "go-limiter", "throttled", "httprate"}

// figures are what the picture shows.
type figures struct {
	perKey map[string]float64 // bytes a key of each of peerNames, at 1e6 keys
	attack map[string]outcome // by the names in notes/fourways.md
}

// outcome is a limiter's row in notes/fourways.md.
type outcome struct {
	quiet, end float64 // memory before the attack and at its end, MiB
	passed     float64 // percent of the attack
	refused    float64 // percent of the requests of light clients
}

// Names of rows in notes/fourways.md.
const (
	attackedLadder = "sketchlimit, with a limit on the /48"
	attackedSketch = "sketchlimit"
	attackedMap    = "x/time/rate in a map"
	attackedLRU    = "LRU of 65,536 buckets, as in Traefik"
	attackedTable  = "table of 100,000, then nobody new"
)

func readFigures(notes string) (f figures, err error) {
	peers, err := rows(filepath.Join(notes, "tables", "peers.md"))
	if err != nil {
		return f, err
	}
	fourways, err := rows(filepath.Join(notes, "fourways.md"))
	if err != nil {
		return f, err
	}
	f.perKey = make(map[string]float64)
	for _, name := range peerNames {
		if f.perKey[name], err = bytesPerKey(peers, name); err != nil {
			return f, err
		}
	}
	f.attack = make(map[string]outcome)
	for _, name := range []string{attackedLadder, attackedSketch, attackedMap, attackedLRU, attackedTable} {
		if f.attack[name], err = attackOn(fourways, name); err != nil {
			return f, err
		}
	}
	return f, nil
}

// rows returns the cells of all lines of tables in a Markdown file.
func rows(file string) (table [][]string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		table = append(table, cells)
	}
	return table, nil
}

// inBrackets matches the end of a cell such as "145 / 168 × (152 / 141)".
var inBrackets = regexp.MustCompile(`\(([0-9.]+) / [0-9.]+\)$`)

// bytesPerKey returns the first of the two values in brackets in the column "bytes a
// key".
func bytesPerKey(peers [][]string, name string) (float64, error) {
	column := -1
	for _, cells := range peers {
		for i, cell := range cells {
			if strings.HasPrefix(cell, "bytes a key at 1e6") {
				column = i
			}
		}
		if column < 0 || len(cells) <= column || !strings.HasPrefix(cells[0], name+" ") {
			continue
		}
		if m := inBrackets.FindStringSubmatch(cells[column]); m != nil {
			return strconv.ParseFloat(m[1], 64)
		}
	}
	return 0, fmt.Errorf("peers.md: no bytes a key of %q", name)
}

// attackOn returns the outcome in the row of the limiter.
func attackOn(fourways [][]string, name string) (o outcome, err error) {
	for _, cells := range fourways {
		if cells[0] != name || len(cells) != 5 {
			continue
		}
		for i, to := range []*float64{&o.quiet, &o.end, &o.passed, &o.refused} {
			number, _, _ := strings.Cut(cells[i+1], " ")
			value, e := strconv.ParseFloat(number, 64)
			err = errors.Join(err, e)
			*to = value
		}
		return o, err
	}
	return o, fmt.Errorf("fourways.md: no row %q", name)
}

// sketchBytes returns what this library takes for a number of keys.
func sketchBytes(keys int) (float64, error) {
	_, bytes, err := sketchlimit.Config{Limit: limit, Window: time.Minute, Keys: keys}.Size()
	return float64(bytes), err
}

// perKeyRange returns the least and the most bytes a key of the peers.
func (f figures) perKeyRange() (least, most float64) {
	all := slices.Sorted(maps.Values(f.perKey))
	return all[0], all[len(all)-1]
}

// description is the alternative text of the picture.
func (f figures) description() string {
	ours, err := sketchBytes(textKeys)
	if err != nil {
		return err.Error()
	}
	least, most := f.perKeyRange()
	a := f.attack
	return fmt.Sprintf("Memory for a million keys, each limited to %d requests a minute: sketchlimit %.1f MiB; "+
		"httprate, throttled, go-limiter, x/time/rate and ulule/limiter %.0f … %.0f MiB. "+
		"An attack from 65,536 networks of an IPv6 /48: sketchlimit stays at %.1f MiB and lets %.0f %% of it pass, "+
		"or %g %% at %.1f MiB with a limit on the /48; a map of x/time/rate grows from %.0f to %.0f MiB and lets %.0f %% pass; "+
		"an LRU of 65,536 keys lets all of it pass; a full table refuses %.0f %% of the requests of light clients.",
		limit, ours/(1<<20), least*textKeys/(1<<20), most*textKeys/(1<<20),
		a[attackedSketch].end, a[attackedSketch].passed, a[attackedLadder].passed, a[attackedLadder].end,
		a[attackedMap].quiet, a[attackedMap].end, a[attackedMap].passed, a[attackedTable].refused)
}
