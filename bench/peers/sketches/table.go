package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// tables renders the results as Markdown: what every player did, and where this library
// is behind.
func (t *tournament) tables(arenas [][]*player) string {
	var b strings.Builder
	b.WriteString("| windows, memory | limiter | setting |")
	for _, l := range t.loads {
		fmt.Fprintf(&b, " %s |", l.name)
	}
	fmt.Fprintf(&b, " over-admitted | error | ns |\n%s\n", strings.Repeat("|---", 6+len(t.loads))+"|")
	for _, players := range arenas {
		rank(&b, players)
	}
	return b.String() + "\n## Where sketchlimit is behind\n\n" + t.behind(arenas)
}

// rank writes the rows of an arena, this library first and then the others by score.
func rank(b *strings.Builder, players []*player) {
	ranked := slices.Clone(players)
	slices.SortStableFunc(ranked[1:], func(x, y *player) int { return cmp.Compare(x.score(), y.score()) })
	where := players[0].arena.String()
	for _, p := range ranked {
		name := p.title()
		if p.contestant == nil {
			name = "**" + name + "**"
		}
		fmt.Fprintf(b, "| %s | %s | %s |", where, name, p.setting)
		over, units := 0.0, 0.0
		for load := range p.outcomes {
			fmt.Fprintf(b, " %s / %s |", share(p.mean(load, outcome.falseDenials)), share(p.mean(load, outcome.withheld)))
			over += p.mean(load, outcome.overAdmissions) / float64(len(p.outcomes))
			units += p.mean(load, outcome.meanError) / float64(len(p.outcomes))
		}
		fmt.Fprintf(b, " %s | %.2g | %.0f |\n", share(over), units, p.ns)
		where = ""
	}
}

// metrics are the figures that this library is compared by.
var metrics = []struct {
	name   string
	figure func(outcome) float64
}{{"denials", outcome.falseDenials}, {"withheld", outcome.withheld}}

// behind lists the cells in which another contestant does better, of those that never
// admit too much there.
func (t *tournament) behind(arenas [][]*player) string {
	var b strings.Builder
	b.WriteString("| load |")
	for _, players := range arenas {
		fmt.Fprintf(&b, " %v |", players[0].arena)
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Repeat("|---", 1+len(arenas))+"|")
	cells, noise, winners := 0, 0, make(map[string]int)
	for load := range t.loads {
		fmt.Fprintf(&b, "| %s |", t.loads[load].name)
		for _, players := range arenas {
			var found []string
			for _, m := range metrics {
				best := ahead(players, load, m.figure)
				if best == nil {
					continue
				}
				text := m.name + " " + share(players[0].mean(load, m.figure)) + ", " + best.title() + " " + share(best.mean(load, m.figure))
				if cells++; within(players[0], best, load, m.figure) {
					noise++
					text += " (noise)"
				} else {
					winners[best.title()]++
				}
				found = append(found, text)
			}
			fmt.Fprintf(&b, " %s |", strings.Join(found, "; "))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nOf %d figures, sketchlimit's is behind that of another contestant in %d, in %d of them within the noise of the seeds.\n%s",
		len(arenas)*len(t.loads)*len(metrics), cells, noise, podium(winners))
	return b.String()
}

// podium says who was best how often.
func podium(winners map[string]int) string {
	if len(winners) == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(winners), func(x, y string) int {
		return cmp.Or(winners[y]-winners[x], strings.Compare(x, y))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d ×", name, winners[name])
	}
	return "Beyond the noise the best are: " + strings.Join(names, ", ") + ".\n"
}

// ahead returns the best of the players that do better than this library, the first,
// and never admit too much; or nil. Of several that are equal it is the one with the
// best score.
func ahead(players []*player, load int, figure func(outcome) float64) *player {
	best := players[0]
	for _, p := range players[1:] {
		better := cmp.Or(cmp.Compare(p.mean(load, figure), best.mean(load, figure)), cmp.Compare(p.score(), best.score())) < 0
		if better && p.mean(load, outcome.overAdmissions) == 0 {
			best = p
		}
	}
	if best.mean(load, figure) == players[0].mean(load, figure) {
		return nil
	}
	return best
}

// within reports whether the difference of two players is below two standard errors of
// its mean over the seeds.
func within(p, q *player, load int, figure func(outcome) float64) bool {
	n := float64(len(p.outcomes[load]))
	mean := p.mean(load, figure) - q.mean(load, figure)
	var squares float64
	for i, o := range p.outcomes[load] {
		d := figure(o) - figure(q.outcomes[load][i]) - mean
		squares += d * d
	}
	return n < 2 || math.Abs(mean) < 2*math.Sqrt(squares/(n-1)/n)
}

// share formats a share with two digits; 0 as "0".
func share(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 1, 64), "e-")
	return digits + "e-" + strings.TrimLeft(exponent, "0")
}

func kibibytes(n int) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
