package natslimit

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/sharing"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
)

// startServer starts a server in this process, on a free port, until the test ends.
func startServer(t testing.TB, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.JetStream, o.NoSigs, o.NoLog = "127.0.0.1", true, true, true
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	if o.StoreDir == "" {
		o.StoreDir = t.TempDir()
	}
	s, err := server.NewServer(&o)
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(time.Minute))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

func connect(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.RetryOnFailedConnect(true))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}

// TestEngine holds the engine against what package sharing asks of one.
func TestEngine(t *testing.T) {
	t.Parallel()
	s := startServer(t, server.Options{})
	url := s.ClientURL()
	require.NoError(t, sharingtest.Check(sharingtest.Server{
		Open: func() (sharing.Engine, error) { return newEngine(connect(t, url), 1), nil },
		Wipe: func() error { return connect(t, url).DeleteStream(context.Background(), StreamName) },
	}))
}

// TestSubjects: every prefix has a subject of its own.
func TestSubjects(t *testing.T) {
	require.Equal(t, "sketchlimit.api:v1", subject("api:v1"))
	require.Equal(t, "sketchlimit.a%2eb%20%2a%3e%25%c3%a4", subject("a.b *>%ä"))
}

// TestNoJetStream: a server without it is away, and the error says why.
func TestNoJetStream(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(time.Minute))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	node := join(t, connect(t, s.ClientURL()))
	eventually(t, "Away", func() bool { return node.Stats().Away })
	require.ErrorContains(t, node.Stats().Err, "natslimit: JetStream does not answer, is it enabled?")
}
