package corednslimit

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/miekg/dns"
)

// category is a kind of answer that has an allowance of its own.
type category uint8

const (
	response category = iota // with answers
	nodata
	nxdomain
	referral
	failure // any other error
	request // of any kind, before it is answered
	categories
)

// options are the names of the allowances in a block.
var options = [categories]string{
	"responses-per-second", "nodata-per-second", "nxdomains-per-second", "referrals-per-second", "errors-per-second",
	"requests-per-second",
}

// categoryOf returns the category of an answer.
func categoryOf(m *dns.Msg) category {
	switch {
	case len(m.Answer) > 0:
		return response
	case m.Rcode == dns.RcodeNameError:
		return nxdomain
	case m.Rcode != dns.RcodeSuccess:
		return failure
	}
	if of := authority(m); of != nil && of.Rrtype == dns.TypeNS {
		return referral
	}
	return nodata
}

// authority returns the header of the record that says whose answer it is, nil if there
// is none. Signatures and proofs may stand before it.
func authority(m *dns.Msg) *dns.RR_Header {
	for _, record := range m.Ns {
		if h := record.Header(); h.Rrtype == dns.TypeSOA || h.Rrtype == dns.TypeNS {
			return h
		}
	}
	return nil
}

// prefixes are the bits of an address that tell clients apart.
type prefixes struct{ v4, v6 int }

// of returns the network of a client. Addresses that are none have one network in common.
func (p prefixes) of(client net.Addr) netip.Addr {
	addr := address(client).Unmap().WithZone("")
	bits := p.v6
	if addr.Is4() {
		bits = p.v4
	}
	network, _ := addr.Prefix(bits)
	return network.Addr()
}

func address(client net.Addr) netip.Addr {
	switch a := client.(type) {
	case *net.UDPAddr:
		return a.AddrPort().Addr()
	case *net.TCPAddr:
		return a.AddrPort().Addr()
	}
	a, _ := netip.ParseAddrPort(client.String())
	return a.Addr()
}

// keyBytes is what most keys have room in.
const keyBytes = 1 + 16 + 2 + 255

// key appends the key of the account to buf: category, network, type and name, where
// they count. The first byte tells how long the network is, so no two accounts have one
// key. Case does not count in names, and resolvers vary it.
func (c category) key(buf []byte, network netip.Addr, qtype uint16, name string) []byte {
	switch {
	case network.Is4():
		a := network.As4()
		buf = append(append(buf, byte(c)|0x40), a[:]...)
	case network.Is6():
		a := network.As16()
		buf = append(append(buf, byte(c)|0x80), a[:]...)
	default:
		buf = append(buf, byte(c))
	}
	if c == response || c == referral {
		buf = binary.BigEndian.AppendUint16(buf, qtype)
	}
	for i := range len(name) {
		b := name[i]
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		buf = append(buf, b)
	}
	return buf
}

// nameOf returns the name under which an answer counts. Names that do not exist, and
// those that are delegated, count under their authority, and those made from a wildcard
// under its parent, because there are any number of them.
func nameOf(ctx context.Context, c category, m *dns.Msg) string {
	switch c {
	case failure, request:
		return ""
	case nxdomain, referral:
		if of := authority(m); of != nil {
			return of.Name
		}
		return ""
	}
	if wildcard := metadata.ValueFunc(ctx, "zone/wildcard"); wildcard != nil {
		if parent, ok := strings.CutPrefix(wildcard(), "*."); ok {
			return parent
		}
	}
	if len(m.Question) == 0 {
		return ""
	}
	return m.Question[0].Name
}
