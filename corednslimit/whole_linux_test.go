package corednslimit

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// wholeCorefile is a Corefile with the plugins that answer by themselves.
const wholeCorefile = `
.:%d {
	bind 127.0.0.1
	prometheus 127.0.0.1:%d
	chaos
	any
	local
	acl example.net {
		block
	}
	tsig {
		secret key.example. c2VjcmV0c2VjcmV0c2VjcmV0
		require A
	}
	sketch_rrl {
		responses-per-second 20
		slip-ratio 2
		%s
	}
	cache
	template IN A {
		answer "{{ .Name }} 60 IN A 192.0.2.1"
	}
}
`

// TestWholeCoreDNS runs a CoreDNS of all plugins as its own process: what answers
// before sketch_rrl's usual place is limited as well, and a reload that takes more
// memory than there is leaves the server as it was. It takes minutes to build such a
// CoreDNS, so it must be there.
func TestWholeCoreDNS(t *testing.T) {
	program := os.Getenv("SKETCHLIMIT_COREDNS")
	if program == "" {
		t.Skip("SKETCHLIMIT_COREDNS names no CoreDNS, built as doc.go has it")
	}
	port, metrics := freePort(t), freePort(t)
	corefile := filepath.Join(t.TempDir(), "Corefile")
	write := func(memory string) {
		require.NoError(t, os.WriteFile(corefile, fmt.Appendf(nil, wholeCorefile, port, metrics, memory), 0o600))
	}
	write("")
	said, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer said.Close()
	server := exec.Command(program, "-conf", corefile)
	server.Stdout, server.Stderr = said, said
	require.NoError(t, server.Start())
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer func() {
		_ = server.Process.Kill()
		<-ended
	}()
	address := fmt.Sprintf("127.0.0.1:%d", port)
	tcp := &dns.Client{Net: "tcp", Timeout: time.Second}
	require.Eventually(t, func() bool {
		_, _, err := tcp.Exchange(query("www.example.org."), address)
		return err == nil
	}, 30*time.Second, 50*time.Millisecond)

	client := 0
	for what, m := range map[string]*dns.Msg{
		"chaos": authors(), "any": new(dns.Msg).SetQuestion("example.org.", dns.TypeANY), "local": query("localhost."),
		"acl": query("www.example.net."), "tsig": query("www.example.org."), "template": new(dns.Msg).SetQuestion("a.example.org.", dns.TypeA),
	} {
		const sent = 200
		client++ // errors of acl and tsig are one account
		whole, truncated := flood(t, fmt.Sprintf("127.1.%d.1", client), address, m, sent)
		require.InDelta(t, 22, whole, 12, what) // and what flows in while the queries come
		require.InDelta(t, (sent-whole)/2, truncated, 2, what)
	}

	scrape, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics))
	require.NoError(t, err)
	defer scrape.Body.Close()
	text, err := io.ReadAll(scrape.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "coredns_sketch_rrl_memory_bytes")
	if sketchlimit.CheckMemory(64<<30) == nil {
		return // this machine has so much
	}
	write("memory 64GiB")
	require.NoError(t, server.Process.Signal(syscall.SIGUSR1))
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(said.Name())
		return err == nil && strings.Contains(string(text), "bytes of accounts, with those of all blocks and of the server that runs")
	}, 30*time.Second, 50*time.Millisecond)
	whole, _ := flood(t, "127.2.0.1", address, query("later.example.com."), 10)
	require.Equal(t, 10, whole)
	select {
	case err := <-ended:
		ended <- err
		require.Fail(t, "the server has ended", "%v", err)
	default:
	}
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
