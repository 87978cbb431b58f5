// Command attack tries to have a chosen client denied that has used nothing. It knows
// the code and the Config, not the seed. It sends requests under keys of its own, and
// sees what the victim is told, as whoever may ask under the victim's key does. From
// that it learns which of its keys share cells with the victim, and drives these up.
//
// What it sees decides what it needs: all that limiters tell, the same with
// Config.Coarse, or only whether the victim is denied. The last is a flood: nothing
// tells it which keys to send, so it fills the cells of all clients. Whoever sees
// nothing about the victim cannot do better than that, because where the victim's cells
// are is in no answer.
//
// No time passes during an attack, so nothing flows back and no window ends. The second
// attack on the same victim begins when all that the first one left has gone.
//
//	go run ./attack [-queries 1000000] [-keys 10000] [-limit 100] [-seeds 31] [-keyed]
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/sketchlimit/sketchlimit"
)

func main() {
	s := scenario{}
	flag.IntVar(&s.queries, "queries", 1_000_000, "requests and looks of one attack, at most")
	flag.IntVar(&s.keys, "keys", 10_000, "Config.Keys")
	flag.IntVar(&s.limit, "limit", 100, "Config.Limit")
	flag.BoolVar(&s.keyed, "keyed", false, "with MapHash instead of the hash of a Config that names none")
	seeds := flag.Int("seeds", 31, "attacks of each kind, on limiters with different seeds")
	flag.Parse()
	if s.queries < 1 || *seeds < 1 {
		fmt.Fprintln(os.Stderr, "attack: -queries and -seeds must be at least 1")
		os.Exit(2)
	}
	if err := table(s, *seeds); err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
}

// table prints, for every algorithm and for all that an attacker may see, the queries
// of attacks.
func table(s scenario, seeds int) error {
	fmt.Println("| algorithm | what the attacker sees | queries until the victim is denied | and for the second time |")
	fmt.Println("|---|---|---|---|")
	algorithms := []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket}
	for _, s.algorithm = range algorithms {
		for _, s.sees = range []view{all, coarse, denials} {
			first, second, err := s.attacks(seeds)
			if err != nil {
				return err
			}
			fmt.Printf("| %v | %v | %s | %s |\n", s.algorithm, s.sees, s.text(median(first)), s.text(median(second)))
		}
	}
	return nil
}

// text returns queries to two digits.
func (s *scenario) text(queries int) string {
	if queries < s.queries {
		return fmt.Sprintf("%.2g", float64(queries))
	}
	return fmt.Sprintf("above %.2g", float64(s.queries))
}
