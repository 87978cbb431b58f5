package httplimit

import "github.com/sketchlimit/sketchlimit"

// Ladder returns quotas for [NewAll] on clients and on their networks (prefix limits):
// "client" is the client as Clients counts it, "site" a /24 or an IPv6 /48, "provider"
// a /16 or a /32. A flood from one network then takes no more from the limiter of
// clients than the network's limit. Set Keys of each limiter to the networks of that
// length in a window.
//
// Requests of peers without an address, as on a Unix socket, share the empty key of
// each quota.
func Ladder(clients *Clients, client, site, provider sketchlimit.Member) []Quota {
	return []Quota{
		{Name: "client", Limiter: client, Key: clients},
		{Name: "site", Limiter: site, Key: clients.network(24, 48)},
		{Name: "provider", Limiter: provider, Key: clients.network(16, 32)},
	}
}

// network returns the same Clients, who count by networks of these lengths.
func (c *Clients) network(ipv4Bits, ipv6Bits int) *Clients {
	if c == nil { // which NewAll refuses
		return nil
	}
	return &Clients{Proxies: c.Proxies, Header: c.Header, IPv4Bits: ipv4Bits, IPv6Bits: ipv6Bits}
}
