// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
)

// adminFlags say how to reach the admin listener of a running sidecar.
type adminFlags struct{ address, tokenFile, caFile string }

func (f *adminFlags) register(cmd *cobra.Command, env environment) {
	cmd.Flags().StringVar(&f.address, "admin", env.value("OUTRIGGER_ADMIN", defaultAdmin), "admin listener of the running sidecar: host:port, :port, https://host:port or unix:///path")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", env.value("OUTRIGGER_ADMIN_TOKEN_FILE", ""), "file with the token of an operator, where the admin listener asks for one")
	cmd.Flags().StringVar(&f.caFile, "ca", "", "PEM file of CAs trusted to sign the certificate of an https:// admin listener; unset: the system's CAs")
}

// adminClient sends requests to an admin listener.
type adminClient struct {
	// name is the listener in messages.
	name   string
	base   *url.URL
	client *http.Client
	// token is that of the operator; nil for none.
	token func() string
}

// open reads what the listener asks for.
func (f *adminFlags) open() (*adminClient, error) {
	base, err := adminURL(f.address)
	if err != nil {
		return nil, usageError("--admin: " + err.Error())
	}
	c := &adminClient{name: base.Host, base: base}
	transport := &http.Transport{DisableKeepAlives: true}
	c.client = &http.Client{Transport: transport}
	if base.Scheme == "unix" {
		c.name = base.Path
		c.base = &url.URL{Scheme: "http", Host: "localhost"}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.name)
		}
	}
	if f.caFile != "" {
		client, err := keys.NewClient(keys.ClientOptions{CAFile: f.caFile, ServerName: base.Hostname()})
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		transport.TLSClientConfig = client.Config()
	}
	if f.tokenFile == "" {
		return c, nil
	}
	if c.token, err = tokenIn(f.tokenFile); err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	return c, nil
}

// authorize adds the token, if there is one.
func (c *adminClient) authorize(header http.Header) {
	if c.token != nil {
		header.Set("Authorization", "Bearer "+c.token())
	}
}

// tokenIn returns what reads the token of a file for each request: a command that waits outlives a token that is rotated. While
// there is none to read, it is the first one.
func tokenIn(file string) (func() string, error) {
	first, err := readToken(file)
	if err != nil {
		return nil, err
	}
	return func() string {
		if now, err := readToken(file); err == nil {
			return now
		}
		return first
	}, nil
}

// readToken reads a file with a bearer token. Its errors show nothing of the contents.
func readToken(file string) (string, error) {
	const most = 1 << 16
	text, err := keys.ReadFile(file, most)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if len(token) < identity.MinToken || len(token) > identity.MaxToken {
		return "", fmt.Errorf("%s has no token of %d to %d characters", file, identity.MinToken, identity.MaxToken)
	}
	return token, nil
}

// adminURL is where an admin listener is. A listener on all addresses is asked on this machine.
func adminURL(address string) (*url.URL, error) {
	if path, ok := front.UnixPath(address); ok {
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("want unix:///path, not %q", address)
		}
		return &url.URL{Scheme: "unix", Path: path}, nil
	}
	scheme := "http"
	if rest, ok := strings.CutPrefix(address, "https://"); ok {
		scheme, address = "https", rest
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" || port == "0" {
		return nil, fmt.Errorf("want host:port, such as %s, https://host:port or unix:///path, not %q", defaultAdmin, address)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}, nil
}

// send sends one request and returns its answer, of which it reads at most limit bytes.
func (c *adminClient) send(ctx context.Context, method, path string, query url.Values, limit int64) (status int, text string, err error) {
	target := *c.base
	target.Path, target.RawQuery = path, query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target.String(), nil)
	if err != nil {
		return 0, "", err
	}
	c.authorize(req.Header)
	res, err := c.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err != nil {
		return 0, "", err
	}
	return res.StatusCode, strings.ToValidUTF8(string(body), "?"), nil
}
