// SPDX-License-Identifier: Apache-2.0

// Command authority is the example provider of zitadel/oidc as an authorization
// server on loopback, for conformance/clients/auth.mjs: OpenID discovery alone, an
// issuer that ends in a slash, no resource indicators (the audience of a token is the
// client), no registration of clients, and a login form. Its access tokens are JWTs.
//
// It prints its issuer, one line on standard output, when it listens, and ends with
// its standard input.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

func main() {
	client := flag.String("client", "native", "id of the client")
	redirect := flag.String("redirect", "", "redirect URI of the client")
	flag.Parse()
	if err := run(context.Background(), *client, *redirect, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "authority:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, client, redirect string, in io.Reader, out io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	issuer := fmt.Sprintf("http://localhost:%d/", listener.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // It is one.
	storage.RegisterClients(storage.NativeClient(client, redirect))
	quiet := slog.New(slog.DiscardHandler)
	router := exampleop.SetupServer(issuer, &jwtStorage{storage.NewStorage(storage.NewUserStore(issuer))}, quiet, false)
	server := &http.Server{Handler: router, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = server.Close()
	}()
	if _, err := fmt.Fprintln(out, issuer); err != nil {
		return errors.Join(err, server.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// jwtStorage is the storage of the example, with clients whose access tokens are JWTs and
// that may ask for any scope.
type jwtStorage struct{ *storage.Storage }

// GetClientByClientID implements [op.Storage].
func (s *jwtStorage) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	client, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return jwtClient{client}, nil
}

type jwtClient struct{ op.Client }

// AccessTokenType implements [op.Client].
func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

// IsScopeAllowed implements [op.Client].
func (jwtClient) IsScopeAllowed(string) bool { return true }
