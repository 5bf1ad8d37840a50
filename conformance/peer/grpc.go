// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/reflection"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Service is a running tool service.
type Service struct {
	*Lab
	// URL is what --backend takes.
	URL string
	// CA is the file with the authority of those that have TLS, "" for others.
	CA string

	stop func()
}

// Stop ends the service before the test does. Calls in flight are cut off.
func (s *Service) Stop() { s.stop() }

// GRPC serves a Lab with grpc-go over h2c.
func GRPC(tb testing.TB) *Service {
	tb.Helper()
	return GRPCAt(tb, testkit.Reserved(tb))
}

// GRPCAt is GRPC on a given address.
func GRPCAt(tb testing.TB, addr string) *Service {
	tb.Helper()
	l := testkit.Listen(tb, addr)
	lab, stop := serveGRPC(tb, l)
	return &Service{Lab: lab, URL: "grpc://" + l.Addr().String(), stop: stop}
}

// GRPCUnix serves a Lab on a Unix socket.
func GRPCUnix(tb testing.TB) *Service {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "lab.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	lab, stop := serveGRPC(tb, l)
	return &Service{Lab: lab, URL: "unix://" + path, stop: stop}
}

// GRPCTLS serves a Lab over TLS with a certificate of a new authority.
func GRPCTLS(tb testing.TB) *Service {
	tb.Helper()
	authority := newAuthority(tb)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	creds := credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{authority.issue(tb)}, MinVersion: tls.VersionTLS12,
	})
	lab, stop := serveGRPC(tb, l, grpc.Creds(creds))
	return &Service{Lab: lab, URL: "grpcs://" + l.Addr().String(), CA: authority.file, stop: stop}
}

func serveGRPC(tb testing.TB, l net.Listener, options ...grpc.ServerOption) (*Lab, func()) {
	tb.Helper()
	lab := &Lab{}
	server := grpc.NewServer(options...)
	server.RegisterService(labService(), lab)
	reflection.Register(server)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); err != nil {
			tb.Errorf("grpc-go: serve: %v", err)
		}
	})
	stop := func() {
		server.Stop()
		serving.Wait()
	}
	tb.Cleanup(stop)
	return lab, stop
}
