package caddylimit

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/sketchlimit/sketchlimit"
)

// settings are what counts of a zone depend on, by the names of the options. Its key
// and matchers are not among them: they say which requests are counted, not how.
type settings []setting

type setting struct{ name, value string }

func (z *Zone) settingsOf() settings {
	var limits []string
	for _, c := range z.configs {
		limits = append(limits, fmt.Sprintf("%d in %v", c.Limit, c.Window))
	}
	c := z.configs[0]
	all := settings{
		{"zone", z.name}, {"limits", strings.Join(limits, " and ")}, {"algorithm", cmp.Or(z.Algorithm, algorithms[0])},
		{"burst", fmt.Sprint(c.Burst)}, {"ipv4_prefix", fmt.Sprint(z.IPv4Prefix)}, {"ipv6_prefix", fmt.Sprint(z.IPv6Prefix)},
		{"keys", fmt.Sprint(z.keys())}, {"headroom", fmt.Sprint(c.Headroom)}, {"memory", fmt.Sprint(z.Memory)},
		{"overload", cmp.Or(z.Overload, overloads[sketchlimit.Deny])}, {"redis", "off"},
	}
	if z.redis != nil {
		all[len(all)-1].value = fmt.Sprintf("%+v", *z.redis)
	}
	return all
}

// identity returns the settings as one text, others for others.
func (s settings) identity() string { return fmt.Sprintf("%q", []setting(s)) }

// sameAs returns what differs between a state and a zone of its name in the same
// config. Addresses may hold a password: they are not in the error.
func (s *state) sameAs(z *Zone) error {
	k := s.kept.Load()
	for i, a := range s.settings {
		switch b := z.settings[i]; {
		case a == b:
		case a.name == "redis":
			return errors.New("twice with different settings: redis, must be the same, or another name")
		case a.name == "keys":
			return fmt.Errorf("twice with different settings: keys %s and %s, must be the same, or another name; "+
				"without keys and memory they are %d, or 1 if key has no placeholder", a.value, b.value, usualKeys)
		default:
			return fmt.Errorf("twice with different settings: %s %s and %s, must be the same, or another name",
				a.name, a.value, b.value)
		}
	}
	switch {
	case k.every != z.kept.every:
		return fmt.Errorf("twice with different settings: snapshot_interval %v and %v, must be the same", k.text(), z.kept.text())
	case k.where != z.kept.where:
		return errors.New("twice with different settings: storage, must be the same")
	}
	return nil
}
