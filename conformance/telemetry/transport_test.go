// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/conformance/telemetry/service"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// TestTransports: the same call over each version of HTTP, with TLS and without, and to a backend on a Unix socket.
func TestTransports(t *testing.T) {
	s := newStory(t, "transports")
	server := s.serve(t)
	s.everyVersion(t, "http://"+server.Addr(), nil, "")
	s.stop(t, server)
	ca := tlstest.NewAuthority(t)
	pair := ca.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	unix := service.StartUnixRelay(t, s.backend.Addr)
	server = sidecar.ServeReady(t, built.binary, "--backend", "unix://"+unix.Addr, "--tls-cert", pair.CertFile, "--tls-key", pair.KeyFile)
	s.everyVersion(t, "https://"+server.Addr(), &tls.Config{RootCAs: ca.Pool, MinVersion: tls.VersionTLS12}, ", with TLS, to a Unix socket")
	s.ends(t, server)
}

func (s *story) everyVersion(t *testing.T, url string, secure *tls.Config, how string) {
	t.Helper()
	for _, h2 := range []bool{false, true} {
		protocols, version := new(http.Protocols), ", HTTP/1.1"
		protocols.SetHTTP1(!h2)
		if h2 {
			version = ", HTTP/2"
			protocols.SetHTTP2(secure != nil)
			protocols.SetUnencryptedHTTP2(secure == nil)
		}
		client := &http.Client{Transport: &http.Transport{Protocols: protocols, TLSClientConfig: secure}}
		t.Cleanup(client.CloseIdleConnections)
		s.clients = append(s.clients, client)
		for _, e := range edges() {
			switch {
			case e.dialect == caller.Legacy, e.h2 && !h2:
				continue
			case secure == nil && h2 == e.h2:
				continue // that is how the scenarios of the edge go
			case e.isRPC():
				s.says(t, rpcWith(client, url, e.typed, e.options...), e.name+version+how, echoes, "one")
			default:
				s.says(t, dialWith(t, client, url+e.path, e.dialect), e.name+version+how, echoes, "one")
			}
		}
	}
}
