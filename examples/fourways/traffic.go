package main

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// settings are those of a run. Rates are requests a second.
type settings struct {
	Limit     int           `json:"limit"`
	Window    time.Duration `json:"window"`
	For       time.Duration `json:"for"`       // how long it takes
	Quiet     time.Duration `json:"quiet"`     // how long the ordinary traffic is alone
	Regulars  int           `json:"regulars"`  // clients that ask again and again, in turn
	Every     time.Duration `json:"every"`     // how often each of them asks
	Newcomers int           `json:"newcomers"` // rate; each asks once
	Attack    int           `json:"attack"`    // rate
	Network   netip.Prefix  `json:"network"`   // of the attacker, who goes through its /64s in turn
}

// traffic sends the requests that are due. Those of each client are spread evenly over
// time.
type traffic struct {
	*settings
	regulars, newcomers, attacks int // sent
}

// due are the numbers of requests until a moment.
func (s *settings) due(at time.Duration) (regulars, newcomers, attacks int) {
	rate := float64(s.Regulars) / s.Every.Seconds()
	return int(rate * at.Seconds()), int(float64(s.Newcomers) * at.Seconds()),
		int(float64(s.Attack) * max(0, (at-s.Quiet).Seconds()))
}

// send sends all that is due at a moment and was not sent. Of each kind in turn as much
// as is its part.
func (t *traffic) send(at time.Duration, ask func(client netip.Prefix, attack bool)) {
	regulars, newcomers, attacks := t.due(at)
	parts := max(1, regulars-t.regulars, newcomers-t.newcomers)
	r, n, a := t.regulars, t.newcomers, t.attacks
	for i := 1; i <= parts; i++ {
		for ; t.regulars < r+(regulars-r)*i/parts; t.regulars++ {
			ask(ipv4(10, t.regulars%t.Regulars), false)
		}
		for ; t.newcomers < n+(newcomers-n)*i/parts; t.newcomers++ {
			ask(ipv4(172, t.newcomers), false)
		}
		for ; t.attacks < a+(attacks-a)*i/parts; t.attacks++ {
			ask(t.subnet(t.attacks), true)
		}
	}
}

// ipv4 is the i-th client of the network of 16 M addresses that begin so.
func ipv4(first byte, i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{first, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
}

// subnet is the i-th /64 of the attacker's network, from the first one again after the
// last.
func (s *settings) subnet(i int) netip.Prefix {
	b := s.Network.Masked().Addr().As16()
	high := binary.BigEndian.Uint64(b[:8])
	binary.BigEndian.PutUint64(b[:8], high|uint64(i)&(1<<(64-s.Network.Bits())-1))
	return netip.PrefixFrom(netip.AddrFrom16(b), 64)
}
