// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Setup is how a grpc-go server differs from one that needs no settings.
type Setup struct {
	// TLS: with a certificate of a private CA.
	TLS bool
	// ClientCertificates: it also wants one of its callers.
	ClientCertificates bool
	// NoReflection, NoServices: there is none, or it has nothing to list.
	NoReflection, NoServices bool
	// Token is wanted of every call, reflection included.
	Token string
	// Address is where it listens; "" is a free port.
	Address string
	// Hidden, while true, keeps outrigger.demo.v1.Fleet out of reflection.
	Hidden *atomic.Bool
}

// offers is what reflection lists. Fleet has no code behind it.
type offers struct {
	server *grpc.Server
	hidden *atomic.Bool
}

// GetServiceInfo implements [reflection.ServiceInfoProvider].
func (o offers) GetServiceInfo() map[string]grpc.ServiceInfo {
	out := o.server.GetServiceInfo()
	if !o.hidden.Load() {
		out["outrigger.demo.v1.Fleet"] = grpc.ServiceInfo{}
	}
	return out
}

// GRPCSetup serves a Lab with grpc-go, set up otherwise.
func GRPCSetup(tb testing.TB, s Setup) *Service {
	tb.Helper()
	if s.Address == "" {
		s.Address = testkit.Reserved(tb)
	}
	l := testkit.Listen(tb, s.Address)
	out := &Service{Lab: &Lab{}, URL: "grpc://" + l.Addr().String()}
	var options []grpc.ServerOption
	if s.TLS {
		authority := newAuthority(tb)
		out.CA, out.URL = authority.file, "grpcs://"+l.Addr().String()
		config := &tls.Config{Certificates: []tls.Certificate{authority.issue(tb)}, MinVersion: tls.VersionTLS12}
		if s.ClientCertificates {
			config.ClientAuth = tls.RequireAnyClientCert
		}
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	if s.Token != "" {
		options = append(options, grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream))
	}
	server := grpc.NewServer(options...)
	if !s.NoServices {
		server.RegisterService(labService(), out.Lab)
	}
	switch {
	case s.NoReflection:
	case s.Hidden != nil:
		reflectionv1.RegisterServerReflectionServer(server, reflection.NewServerV1(reflection.ServerOptions{Services: offers{server, s.Hidden}}))
	default:
		reflection.Register(server)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	out.stop = func() {
		server.Stop()
		serving.Wait()
	}
	tb.Cleanup(out.stop)
	return out
}

// check refuses calls without the token.
func (s Setup) check(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+s.Token {
		return status.Error(codes.Unauthenticated, "missing or invalid token")
	}
	return nil
}

func (s Setup) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (s Setup) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := s.check(stream.Context()); err != nil {
		return err
	}
	return next(srv, stream)
}
