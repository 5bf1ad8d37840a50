// SPDX-License-Identifier: Apache-2.0

// Command authclient is the Go SDK's client behind OAuth, for
// conformance/clients/auth.mjs. It logs in, prints {"result": {}}, and then
// answers each line of standard input with one line: {"list": true} lists the
// tools, {"call": NAME, "arguments": {...}} calls one. An answer has a result or
// an error. It ends with its standard input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// callback is the address of the client in a login. Nothing listens there: the
// client reads the address itself.
const callback = "http://127.0.0.1:1/callback"

// legacyRevision is the last revision with a handshake.
const legacyRevision = "2025-11-25"

func main() {
	target := flag.String("url", "", "URL of the MCP server")
	mode := flag.String("mode", "auto", "legacy or auto")
	flag.Parse()
	if err := run(context.Background(), *target, *mode, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "authclient:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, target, mode string, in io.Reader, out io.Writer) error {
	session, err := connect(ctx, target, mode)
	answers := json.NewEncoder(out)
	if err != nil {
		return errors.Join(err, answers.Encode(answer{Error: err.Error()}))
	}
	defer func() { _ = session.Close() }()
	if err := answers.Encode(answer{Result: struct{}{}}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		if err := answers.Encode(asked.run(ctx, session)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// connect logs in as it is asked to, and opens a session.
func connect(ctx context.Context, target, mode string) (*mcp.ClientSession, error) {
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "authclient", RedirectURIs: []string{callback}, TokenEndpointAuthMethod: "none",
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}},
		AuthorizationCodeFetcher: logIn,
	})
	if err != nil {
		return nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "authclient", Version: "1.0.0"}, nil)
	options := &mcp.ClientSessionOptions{}
	if mode == "legacy" {
		options.ProtocolVersion = legacyRevision
	}
	return client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: target, OAuthHandler: handler}, options)
}

// errStop ends a chain of redirects.
var errStop = errors.New("the login has come back")

// logIn follows a login to the client's own address.
func logIn(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	var back *url.URL
	browser := &http.Client{Jar: jar, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(req.URL.String(), callback) {
			back = req.URL
			return errStop
		}
		return nil
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
	if err != nil {
		return nil, err
	}
	res, err := browser.Do(req)
	if res != nil {
		_ = res.Body.Close()
	}
	if back == nil {
		return nil, fmt.Errorf("the login does not come back: %w", err)
	}
	q := back.Query()
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}

type request struct {
	List      bool            `json:"list"`
	Call      string          `json:"call"`
	Arguments json.RawMessage `json:"arguments"`
}

type answer struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

func (r *request) run(ctx context.Context, session *mcp.ClientSession) answer {
	var result any
	var err error
	if r.List {
		result, err = session.ListTools(ctx, nil)
	} else {
		result, err = session.CallTool(ctx, &mcp.CallToolParams{Name: r.Call, Arguments: r.Arguments})
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Result: result}
}
