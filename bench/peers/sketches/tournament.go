package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
)

// tournament is who competes, and where.
type tournament struct {
	contestants []contestant
	loads       []load
	sizes       []int // bytes
	divisor     int   // of the loads
	windows     int
	search      []uint64 // seeds of the search
	seeds       []uint64 // of the rounds that count
	workers     int
	rounds      int // of the time of a decision
	progress    io.Writer
}

// arena is an algorithm and a memory in which limiters compete.
type arena struct {
	kind  kind
	bytes int
}

func (a arena) String() string { return a.kind.String() + ", " + kibibytes(a.bytes) }

func (t *tournament) arenas() (all []arena) {
	for _, k := range kinds {
		for _, bytes := range t.sizes {
			all = append(all, arena{k, bytes})
		}
	}
	return all
}

// player is a limiter in an arena, and what it did.
type player struct {
	*contestant         // nil is this library
	setting     setting // that the search chose
	arena       arena
	outcomes    [][]outcome // by load and seed
	ns          float64     // of a decision
}

// newPlayer returns a player without outcomes.
func (t *tournament) newPlayer(a arena, c *contestant, s setting) *player {
	return &player{contestant: c, setting: s, arena: a, outcomes: make([][]outcome, len(t.loads))}
}

func (p *player) title() string {
	if p.contestant == nil {
		return title
	}
	return p.name
}

func (p *player) limiter() (limiter, error) {
	if p.contestant == nil {
		return newLibrary(p.arena.kind, p.arena.bytes)
	}
	return newCounting(p.build, p.setting, p.arena.kind, p.arena.bytes), nil
}

// score is the geometric mean over the loads of all that the player gets wrong: false
// denials, withheld units and over-admissions, as shares, in the mean of the seeds.
// Half a unit of all comes on top, so that no errors among few requests are no better
// than few among many.
func (p *player) score() float64 {
	var sum float64
	for load, outcomes := range p.outcomes {
		units := 0
		for _, o := range outcomes {
			units += o.exact
		}
		wrong := p.mean(load, outcome.falseDenials) + p.mean(load, outcome.withheld) + p.mean(load, outcome.overAdmissions)
		sum += math.Log(wrong + 0.5/float64(max(units, 1)))
	}
	return math.Exp(sum / float64(len(p.outcomes)))
}

// mean is the mean of a figure over the seeds.
func (p *player) mean(load int, figure func(outcome) float64) (sum float64) {
	for _, o := range p.outcomes[load] {
		sum += figure(o)
	}
	return sum / float64(len(p.outcomes[load]))
}

// run finds the settings, plays the rounds that count, and measures times. It returns
// the players by arena, those of one arena in the order of the contestants, and this
// library first.
func (t *tournament) run() ([][]*player, error) {
	finalists, err := t.choose()
	if err != nil {
		return nil, err
	}
	if err := t.play("round", t.seeds, slices.Concat(finalists...)); err != nil {
		return nil, err
	}
	return finalists, t.measure(finalists)
}

// searchDivisor makes the search small: of keys, requests and memory it takes one in so
// many, which leaves the errors what they are.
const searchDivisor = 8

// choose searches for the best setting of every contestant in every arena.
func (t *tournament) choose() (finalists [][]*player, err error) {
	small := *t
	ratio := max(searchDivisor/t.divisor, 1)
	small.divisor *= ratio
	var tried []*player
	for _, a := range t.arenas() {
		a.bytes /= ratio
		for i := range t.contestants {
			for _, s := range t.contestants[i].settings {
				if len(t.contestants[i].settings) > 1 {
					tried = append(tried, t.newPlayer(a, &t.contestants[i], s))
				}
			}
		}
	}
	if err := small.play("search", t.search, tried); err != nil {
		return nil, err
	}
	for _, p := range tried {
		fmt.Fprintf(t.progress, "search: %v, %s %s: %.2g\n", p.arena, p.name, p.setting, p.score())
	}
	for _, a := range t.arenas() {
		players := []*player{t.newPlayer(a, nil, nil)}
		for i := range t.contestants {
			c := &t.contestants[i]
			best, lowest := c.settings[0], math.Inf(1)
			for _, p := range tried {
				if p.contestant == c && p.arena == (arena{a.kind, a.bytes / ratio}) && p.score() < lowest {
					best, lowest = p.setting, p.score()
				}
			}
			players = append(players, t.newPlayer(a, c, best))
		}
		finalists = append(finalists, players)
	}
	return finalists, nil
}

// play makes each stream once and replays it through all players.
func (t *tournament) play(what string, seeds []uint64, players []*player) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
		done int
		free = make(chan struct{}, t.workers)
	)
	for _, p := range players {
		for load := range t.loads {
			p.outcomes[load] = make([]outcome, len(seeds))
		}
	}
	for i, seed := range seeds {
		for load := range t.loads {
			free <- struct{}{}
			wg.Go(func() {
				err := t.playStream(load, i, seed, players)
				mu.Lock()
				errs = append(errs, err)
				done++
				fmt.Fprintf(t.progress, "%s: %d of %d, %s with seed %d\n", what, done, len(seeds)*len(t.loads), t.loads[load].name, seed)
				mu.Unlock()
				<-free
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// playStream replays the stream of a load and a seed, the i-th one, through all players.
func (t *tournament) playStream(load, i int, seed uint64, players []*player) error {
	s, err := t.loads[load].stream(t.windows, t.divisor, seed)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		exact := exactly(s, k)
		for _, p := range players {
			if p.arena.kind != k {
				continue
			}
			l, err := p.limiter()
			if err != nil {
				return err
			}
			p.outcomes[load][i] = judge(s, k, exact, l)
		}
	}
	return nil
}
