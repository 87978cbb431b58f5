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
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// authority makes certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return a
}

// issue writes a certificate for a name, and its key, and returns the paths.
func (a *authority) issue(folder, name string) (cert, key string) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	require.NoError(a.t, err)
	text, err := x509.MarshalECPrivateKey(private)
	require.NoError(a.t, err)
	cert, key = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	a.write(key, "EC PRIVATE KEY", text)
	a.write(cert, "CERTIFICATE", der)
	return cert, key
}

func (a *authority) write(path, kind string, der []byte) {
	a.t.Helper()
	require.NoError(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// client returns what a client with a certificate for a name connects with, and without
// one if it is "".
func (a *authority) client(name string) grpc.DialOption {
	a.t.Helper()
	config := &tls.Config{RootCAs: a.pool(), ServerName: "limits"}
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.issue(a.t.TempDir(), name))
		require.NoError(a.t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	return grpc.WithTransportCredentials(credentials.NewTLS(config))
}

// asks returns an error unless a client gets an answer.
func asks(t *testing.T, address string, option grpc.DialOption) error {
	t.Helper()
	client, conn := dial(t, address, option)
	defer conn.Close()
	_, err := client.ShouldRateLimit(t.Context(), ask("api", "client", "ann"))
	return err
}

// Clients need a certificate of the authority for the name. Files that change are read
// again; wrong ones are not taken.
func TestTLS(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	folder := t.TempDir()
	variables := environment(root)
	variables["GRPC_SERVER_USE_TLS"] = "true"
	variables["GRPC_SERVER_TLS_CERT"], variables["GRPC_SERVER_TLS_KEY"] = a.issue(folder, "limits")
	variables["GRPC_CLIENT_TLS_CACERT"] = filepath.Join(folder, "ca.crt")
	variables["GRPC_CLIENT_TLS_SAN"] = "envoy"
	a.write(variables["GRPC_CLIENT_TLS_CACERT"], "CERTIFICATE", a.cert.Raw)
	s := start(t, variables)
	require.NoError(t, asks(t, s.grpc, a.client("envoy")))
	require.Error(t, asks(t, s.grpc, a.client("")))
	require.Error(t, asks(t, s.grpc, a.client("stranger")))
	require.Error(t, asks(t, s.grpc, other.client("envoy")))

	write(t, variables["GRPC_SERVER_TLS_CERT"], "no certificate")
	s.wait("certificates stay as they are")
	require.NoError(t, asks(t, s.grpc, a.client("envoy")))

	other.issue(folder, "limits")
	other.write(variables["GRPC_CLIENT_TLS_CACERT"], "CERTIFICATE", other.cert.Raw)
	require.Eventually(t, func() bool { return asks(t, s.grpc, other.client("envoy")) == nil }, 30*time.Second, 20*time.Millisecond)
	require.Error(t, asks(t, s.grpc, a.client("envoy")))
}

func TestTLSErrors(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t.TempDir(), "limits")
	_, _, err := serverTLS(t.Context(), &settings{GRPCCert: cert, GRPCKey: cert}, nil)
	require.ErrorContains(t, err, "GRPC_SERVER_TLS_CERT")
	_, _, err = serverTLS(t.Context(), &settings{GRPCCert: cert, GRPCKey: key, GRPCClientCA: key}, nil)
	require.ErrorContains(t, err, "GRPC_CLIENT_TLS_CACERT")
	_, err = newXDS(&xdsSettings{UseTLS: true, CA: "nowhere"}, nil)
	require.ErrorContains(t, err, "CONFIG_GRPC_XDS_SERVER_TLS_CACERT")
	_, err = newXDS(&xdsSettings{UseTLS: true, Cert: key, Key: key}, nil)
	require.ErrorContains(t, err, "CONFIG_GRPC_XDS_CLIENT_TLS_CERT")
}

// Rules come over a connection on which both sides show certificates.
func TestXDSOverTLS(t *testing.T) {
	a := newAuthority(t)
	pair, err := tls.LoadX509KeyPair(a.issue(t.TempDir(), "control"))
	require.NoError(t, err)
	m := newManagement(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: a.pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	m.set("1", xdsConfig("api", 2))
	folder := t.TempDir()
	variables := xdsEnvironment(m)
	variables["CONFIG_GRPC_XDS_SERVER_USE_TLS"] = "true"
	variables["CONFIG_GRPC_XDS_CLIENT_TLS_CERT"], variables["CONFIG_GRPC_XDS_CLIENT_TLS_KEY"] = a.issue(folder, "limits")
	variables["CONFIG_GRPC_XDS_SERVER_TLS_CACERT"] = filepath.Join(folder, "ca.crt")
	variables["CONFIG_GRPC_XDS_SERVER_TLS_SAN"] = "control"
	a.write(variables["CONFIG_GRPC_XDS_SERVER_TLS_CACERT"], "CERTIFICATE", a.cert.Raw)
	s := start(t, variables)
	client, _ := dial(t, s.grpc)
	ok, _ := allowed(t, client, "ann")
	require.True(t, ok)
}
