package redislimit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// certificates are an authority's, and those of a server and of a client that it signed.
type certificates struct {
	authority, cert, key string // files
	roots                *x509.CertPool
	client               tls.Certificate
}

func newCertificates(t testing.TB) *certificates {
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	number := int64(0)
	issue := func(name string, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		number++
		template := &x509.Certificate{SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		if parent == nil {
			template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
			parent, signer = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		require.NoError(t, err)
		return der, key
	}
	rootDER, rootKey := issue("authority", nil, nil)
	root, err := x509.ParseCertificate(rootDER)
	require.NoError(t, err)
	der, key := issue("server", root, rootKey)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	c := &certificates{authority: write("authority.pem", "CERTIFICATE", rootDER), cert: write("server.pem", "CERTIFICATE", der),
		key: write("server.key", "EC PRIVATE KEY", keyDER), roots: x509.NewCertPool()}
	c.roots.AddCert(root)
	der, key = issue("client", root, rootKey)
	c.client = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return c
}

// config returns that of a client, with its certificate or without.
func (c *certificates) config(own bool) *tls.Config {
	config := &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}
	if own {
		config.Certificates = []tls.Certificate{c.client}
	}
	return config
}

// TestTLS: over TLS, with certificates on both sides, the user of the page does all that
// limiters do. A client that lacks something gets an error and decides alone.
func TestTLS(t *testing.T) {
	t.Parallel()
	plain := redistest.New(t) // or the test is skipped
	if !redistest.KnowsTLS() {
		t.Skip("the redis-server in PATH was built without TLS")
	}
	plain.Kill()
	c := newCertificates(t)
	server := redistest.New(t, "--tls-cert-file", c.cert, "--tls-key-file", c.key, "--tls-ca-cert-file", c.authority, "--tls-auth-clients", "yes")
	admin := newTestClient(t, server.Addr)
	beUserOfThePage(t, admin, redis.Options{Addr: server.TLS, TLSConfig: c.config(true)})
	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">secret").Err())

	stranger := newCertificates(t)
	for name, options := range map[string]redis.Options{
		"no TLS":                   {Addr: server.TLS, Password: "secret"},
		"no certificate":           {Addr: server.TLS, TLSConfig: c.config(false), Password: "secret"},
		"another's certificate":    {Addr: server.TLS, TLSConfig: &tls.Config{RootCAs: c.roots, Certificates: []tls.Certificate{stranger.client}}, Password: "secret"},
		"server of another's":      {Addr: server.TLS, TLSConfig: stranger.config(true), Password: "secret"},
		"wrong password":           {Addr: server.TLS, TLSConfig: c.config(true), Password: "wrong"},
		"user that does not exist": {Addr: server.TLS, TLSConfig: c.config(true), Username: "nobody", Password: "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			options.MaxRetries = -1
			client := redis.NewClient(&options)
			defer client.Close()
			l, err := sketchlimit.New(sketchlimit.Config{Limit: 2, Window: time.Hour, Keys: 1000, Seed: 1})
			require.NoError(t, err)
			defer l.Close()
			s, err := NewSynced(client, l, time.Second, Prefix("tls"), Log(quiet()), Timeout(time.Second))
			require.NoError(t, err, "a server that does not answer is no error")
			defer s.Close()
			require.Error(t, s.base.Exchange(context.Background()))
			require.Error(t, s.Stats().Err)
			require.Zero(t, s.Stats().Exchanges)
			require.True(t, s.AllowN("k", 2))
			require.False(t, s.Allow("k"))
		})
	}
	t.Run("as it should be", func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: server.TLS, TLSConfig: c.config(true), Password: "secret"})
		defer client.Close()
		var nodes []*Synced
		for range 2 {
			l, err := sketchlimit.New(sketchlimit.Config{Limit: 2, Window: time.Hour, Keys: 1000, Seed: 1})
			require.NoError(t, err)
			defer l.Close()
			s, err := NewSynced(client, l, time.Second, Prefix("tls"), Log(quiet()))
			require.NoError(t, err)
			defer s.Close()
			nodes = append(nodes, s)
		}
		require.True(t, nodes[0].Allow("k"))
		exchange(t, nodes...)
		require.Equal(t, 1, nodes[1].Peek("k").Remaining)
	})
}
