package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

// authority signs certificates for localhost.
type authority struct {
	t    *testing.T
	dir  string
	file string // of its own certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"authority"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, key := a.sign(a.cert)
	a.key, a.file = key, a.write("authority.pem", "CERTIFICATE", der)
	return a
}

// sign returns a certificate of a new key, signed by the authority, or by the key
// itself while the authority has none.
func (a *authority) sign(cert *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, signer)
	require.NoError(a.t, err)
	return der, key
}

func (a *authority) write(name, kind string, der []byte) string {
	file := filepath.Join(a.dir, name)
	require.NoError(a.t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return file
}

// certificate writes a certificate for localhost, to be used as said, and its key.
func (a *authority) certificate(name string, usage x509.ExtKeyUsage) (certFile, keyFile string) {
	der, key := a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{Organization: []string{name}},
		DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}})
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", private)
}

// trusts are the settings of a client that trusts the authority alone.
func (a *authority) trusts() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.parsed())
	return &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{"h2"}}
}

func (a *authority) parsed() *x509.Certificate {
	content, err := os.ReadFile(a.file)
	require.NoError(a.t, err)
	block, _ := pem.Decode(content)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(a.t, err)
	return cert
}

// shows adds a certificate to what a client presents.
func shows(t *testing.T, config *tls.Config, certFile, keyFile string) *tls.Config {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	require.NoError(t, err)
	config.Certificates = append(config.Certificates, pair)
	return config
}

func TestClientCertificates(t *testing.T) {
	each(t, func(t *testing.T, kind servers.Kind) {
		server, clients, strangers := newAuthority(t), newAuthority(t), newAuthority(t)
		certFile, keyFile := server.certificate("server", x509.ExtKeyUsageServerAuth)
		s := kind.New(t, basic, "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+certFile, "GRPC_SERVER_TLS_KEY="+keyFile,
			"GRPC_CLIENT_TLS_CACERT="+clients.file, "GRPC_CLIENT_TLS_SAN=localhost")
		asks := func(config *tls.Config) error {
			_, err := dial(t, s.GRPC, credentials.NewTLS(config)).try(request("another", "daily=foo"))
			return err
		}
		certFile, keyFile = clients.certificate("client", x509.ExtKeyUsageClientAuth)
		require.NoError(t, asks(shows(t, server.trusts(), certFile, keyFile)))
		require.Error(t, asks(server.trusts()), "no certificate")
		certFile, keyFile = strangers.certificate("stranger", x509.ExtKeyUsageClientAuth)
		require.Error(t, asks(shows(t, server.trusts(), certFile, keyFile)), "of another authority")
		_, err := dial(t, s.GRPC, nil).try(request("another", "daily=foo"))
		require.Error(t, err, "no TLS")
	})
}

func TestCertificateReload(t *testing.T) {
	each(t, func(t *testing.T, kind servers.Kind) {
		before, after := newAuthority(t), newAuthority(t)
		certFile, keyFile := before.certificate("server", x509.ExtKeyUsageServerAuth)
		newCert, newKey := after.certificate("server", x509.ExtKeyUsageServerAuth)
		s := kind.New(t, basic, "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+certFile, "GRPC_SERVER_TLS_KEY="+keyFile)
		meets := func(a *authority) error {
			conn, err := tls.Dial("tcp", s.GRPC, a.trusts())
			if err == nil {
				conn.Close()
			}
			return err
		}
		require.NoError(t, meets(before))
		require.Error(t, meets(after))
		require.NoError(t, os.Rename(newCert, certFile))
		require.NoError(t, os.Rename(newKey, keyFile))
		require.NoError(t, servers.Eventually(20*time.Second, func() error { return meets(after) }))
		require.Error(t, meets(before))
	})
}
