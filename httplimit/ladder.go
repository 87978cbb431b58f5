package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/sketchlimit/sketchlimit"
)

// Rung is one limit of a [Ladder]: all clients of a network share it.
type Rung struct {
	// Name is that of the policy: ASCII without control characters, not empty, another one for each rung.
	Name string
	// Limiter counts the networks, under the keys that [Clients] makes of them. Set its Keys to the networks that
	// come in a window.
	Limiter *sketchlimit.Limiter
	// IPv4Bits is the length of the prefix that IPv4 addresses are counted by, 1 … 32; 0 is 32.
	IPv4Bits int
	// IPv6Bits is the length of the prefix that IPv6 addresses are counted by, 1 … 128; 0 is 64. Above 64
	// clients choose 8 bytes of a key or more: the Limiter needs a keyed hash, such as sketchlimit.MapHash.
	IPv6Bits int
	// Limit is the limit that a request is held against on this rung, as the option [Limit] has it; nil is that of
	// the Limiter. It must be safe for concurrent use.
	Limit func(*http.Request) int
}

// Rungs returns the rungs that most services want: "client" is an IPv4 address or an IPv6 /64, "site" a /24 or a /48,
// "provider" a /16 or a /32.
func Rungs(client, site, provider *sketchlimit.Limiter) []Rung {
	return []Rung{
		{Name: "client", Limiter: client, IPv4Bits: 32, IPv6Bits: 64},
		{Name: "site", Limiter: site, IPv4Bits: 24, IPv6Bits: 48},
		{Name: "provider", Limiter: provider, IPv4Bits: 16, IPv6Bits: 32},
	}
}

// Ladder is a [Decider] that limits clients by their address and by the networks that it is in. A request must pass
// all rungs. It is counted by all of them or by none, in one step, so a flood from one network takes from the limits
// of its addresses no more than the network's limit. It is made by [NewLadder], and safe for concurrent use.
//
// Each rung is a policy. Requests of peers without an address, as on a Unix socket, share the empty key of each rung.
type Ladder struct {
	clients *Clients
	rungs   []Rung
	group   *sketchlimit.Group
}

// NewLadder returns the ladder of so many rungs, 1 … 8, for [NewPolicies]. Clients finds the addresses; its IPv6Bits
// must be 0, because rungs have their own. Limiters must be different ones, without MaxMemoryBytes.
func NewLadder(clients *Clients, rungs ...Rung) (*Ladder, error) {
	if err := check(clients); err != nil {
		return nil, fmt.Errorf("httplimit: Ladder: %w", err)
	}
	if clients.IPv6Bits != 0 {
		return nil, fmt.Errorf("httplimit: Ladder: Clients.IPv6Bits %d, must be 0: rungs have their own", clients.IPv6Bits)
	}
	const most = 8 // a request then allocates nothing
	if len(rungs) < 1 || len(rungs) > most {
		return nil, fmt.Errorf("httplimit: Ladder of %d rungs, must be 1 … %d", len(rungs), most)
	}
	l := &Ladder{clients: clients}
	var limiters []*sketchlimit.Limiter
	names := map[string]bool{}
	for i, rung := range rungs {
		if err := rung.check(); err != nil {
			return nil, fmt.Errorf("httplimit: rung %d: %w", i, err)
		}
		if names[rung.Name] {
			return nil, fmt.Errorf("httplimit: rung %d: Name %q, must be another one for each rung", i, rung.Name)
		}
		names[rung.Name] = true
		l.rungs, limiters = append(l.rungs, rung), append(limiters, rung.Limiter)
	}
	var err error
	if l.group, err = sketchlimit.NewGroup(limiters...); err != nil {
		return nil, fmt.Errorf("httplimit: Ladder: %w", err)
	}
	return l, nil
}

// check refuses a rung that is none, and sets what 0 stands for.
func (g *Rung) check() error {
	switch {
	case g.Limiter == nil:
		return errors.New("Limiter nil, must be one")
	case g.IPv4Bits < 0 || g.IPv4Bits > 32:
		return fmt.Errorf("IPv4Bits %d, must be 0 … 32", g.IPv4Bits)
	case g.IPv6Bits < 0 || g.IPv6Bits > 128:
		return fmt.Errorf("IPv6Bits %d, must be 0 … 128", g.IPv6Bits)
	}
	if g.IPv4Bits == 0 {
		g.IPv4Bits = 32
	}
	if g.IPv6Bits == 0 {
		g.IPv6Bits = defaultIPv6Bits
	}
	return checkPolicy(g.Name)
}

// Decide implements [Decider].
func (l *Ladder) Decide(a *Answer, r *http.Request, cost int) {
	asks, ok := a.Memory.([]sketchlimit.Ask)
	if !ok {
		asks = make([]sketchlimit.Ask, len(l.rungs))
		a.Memory = asks
	}
	addr := l.clients.Addr(r)
	for i := range asks {
		rung, start := &l.rungs[i], len(a.Keys)
		a.Keys = appendNetwork(a.Keys, addr, rung.IPv4Bits, rung.IPv6Bits)
		key := a.Keys[start:len(a.Keys):len(a.Keys)]
		asks[i].Limiter, asks[i].Request = i, sketchlimit.Request{Bytes: key, N: cost, Limit: own(rung.Limit, r)}
	}
	l.group.DoEach(asks)
	for i := range asks {
		rung, q := &l.rungs[i], &asks[i]
		p := Policy{Name: rung.Name, Window: rung.Limiter.Window(), Key: q.Request.Bytes, Decision: q.Decision}
		p.setNext(rung.Limiter, q.Request)
		a.Policies = append(a.Policies, p)
	}
}

// KeyText returns the first address of the network that a Policy's Key stands for, such as "192.0.2.0" or
// "2001:db8::", whose length the policy's name tells; of what is no key of a rung, the quoted bytes.
func (l *Ladder) KeyText(key []byte) string {
	switch len(key) {
	case 8, 16:
		var b [16]byte
		copy(b[:], key)
		return netip.AddrFrom16(b).String()
	}
	return l.clients.KeyText(key)
}
