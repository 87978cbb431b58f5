package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
)

// certificates is what the server shows to clients, and what clients must show to it,
// as the files have it.
type certificates struct {
	settings *settings
	current  atomic.Pointer[tls.Config]
}

// serverTLS returns the configuration of a server whose files are read again when they
// change, until the context ends. If they are wrong then, the certificates before stay.
// The function reads them at once.
func serverTLS(ctx context.Context, set *settings, logger *slog.Logger) (config *tls.Config, reread func(), err error) {
	c := &certificates{settings: set}
	if err := c.read(); err != nil {
		return nil, nil, err
	}
	reread = func() {
		if err := c.read(); err != nil {
			logger.Error("certificates stay as they are", "error", err)
			return
		}
		logger.Info("certificates loaded")
	}
	all := func(fsnotify.Event) bool { return true }
	if err := watch(ctx, logger, c.folders, all, reread); err != nil {
		return nil, nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}, reread, nil
}

// folders are those of the files: Kubernetes replaces links in them.
func (c *certificates) folders() (all []string) {
	for _, file := range []string{c.settings.GRPCCert, c.settings.GRPCKey, c.settings.GRPCClientCA} {
		if folder := filepath.Dir(file); file != "" && !slices.Contains(all, folder) {
			all = append(all, folder)
		}
	}
	return all
}

// read reads the files.
func (c *certificates) read() error {
	set := c.settings
	pair, err := tls.LoadX509KeyPair(set.GRPCCert, set.GRPCKey)
	if err != nil {
		return fmt.Errorf("GRPC_SERVER_TLS_CERT %q, GRPC_SERVER_TLS_KEY %q: %w", set.GRPCCert, set.GRPCKey, err)
	}
	next := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair}}
	if set.GRPCClientCA != "" {
		if next.ClientCAs, err = readCA("GRPC_CLIENT_TLS_CACERT", set.GRPCClientCA); err != nil {
			return err
		}
		next.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if set.GRPCClientSAN != "" {
		next.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("no client certificate")
			}
			return s.PeerCertificates[0].VerifyHostname(set.GRPCClientSAN)
		}
	}
	c.current.Store(next)
	return nil
}

// clientFiles are the names of variables, and the files in them, by which a client
// trusts a server and shows who it is.
type clientFiles struct {
	certName, cert, keyName, key, caName, ca string
}

// clientTLS returns the configuration of a client. The certificate is read again for
// each connection.
func clientTLS(f clientFiles, server string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: server}
	if f.ca != "" {
		roots, err := readCA(f.caName, f.ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = roots
	}
	if f.cert != "" {
		read := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.cert, f.key)
			if err != nil {
				return nil, fmt.Errorf("%s %q, %s %q: %w", f.certName, f.cert, f.keyName, f.key, err)
			}
			return &pair, nil
		}
		if _, err := read(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	}
	return config, nil
}

// readCA reads certificates that others are held against.
func readCA(name, file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s %q, must hold a certificate in PEM", name, file)
	}
	return pool, nil
}
