package main

import (
	"fmt"
	"slices"
)

// section returns who is refused by today's rules and by new ones; in units, too, where
// requests have costs.
func (c *comparison) section(costs bool) section {
	today, next := c.Today, c.New
	if today == next {
		today, next = today+" (--rules)", next+" (--against)"
	}
	names := []string{"refused by " + today, "refused by " + next, "by both", "by " + today + " only", "by " + next + " only"}
	s := section{ID: "rules", Title: "Rules", Table: grid{Head: []string{"", "requests", "units", "keys"}, Text: 1, Mark: -1},
		Prose: "The log's requests held against the rules, as descriptors of its fields."}
	if c.New != "" {
		s.Prose += " A key is refused by one file only if the other one never refuses it."
	}
	for i, f := range c.Fates {
		keys := integer(f.Keys)
		if f.MoreKeys {
			keys = "over " + keys
		}
		s.Table.Rows = append(s.Table.Rows, []string{names[i], integer(f.Requests), integer(f.Units), keys})
	}
	if !costs {
		s.Table.Head = slices.Delete(s.Table.Head, 2, 3)
		for i, row := range s.Table.Rows {
			s.Table.Rows[i] = slices.Delete(row, 2, 3)
		}
	}
	for i, f := range c.Fates {
		if len(f.Top) == 0 {
			continue
		}
		text := "Refused " + names[i] + ", the most first:"
		for k := range f.Top {
			name, number := heavyText(&f.Top[k])
			text += fmt.Sprintf(" %s (%s)", name, number)
			if k < len(f.Top)-1 {
				text += ","
			}
		}
		s.Notes = append(s.Notes, text+".")
	}
	return s
}
