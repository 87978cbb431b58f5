// Command corednslimit uses module corednslimit as somebody who gets it by its version.
package main

import (
	"log"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/whoami"
	"github.com/miekg/dns"
	_ "github.com/sketchlimit/sketchlimit/corednslimit"
)

const corefile = `.:0 {
	bind 127.0.0.1
	sketch_rrl {
		responses-per-second 1
		slip-ratio 1
	}
	whoami
}`

func main() {
	caddy.Quiet, dnsserver.Quiet = true, true
	server, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	for _, truncated := range []bool{false, true} {
		question := new(dns.Msg).SetQuestion("example.org.", dns.TypeA)
		answer, err := dns.Exchange(question, server.Servers()[0].LocalAddr().String())
		if err != nil || answer.Truncated != truncated {
			log.Fatalf("%v, %v, want truncated %v", answer, err, truncated)
		}
	}
}
