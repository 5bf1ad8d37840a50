// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/internal/grpcwire"
)

// healthProcedure is the one method that a probe runs: standard, harmless, and
// an "unimplemented" answer proves the protocol as well as a real one.
const healthProcedure = "/grpc.health.v1.Health/Check"

// unknownType is a content type that no server takes. Connect servers answer it
// with the list of those that they do take (415 and Accept-Post) and run nothing.
const unknownType = "application/x-outrigger-probe"

// prober is the state of one search.
type prober struct {
	client   *Client
	hints    []string
	attempts []Attempt
	answered bool // some attempt reached a peer that said something
	http2    bool // the peer speaks HTTP/2
}

func (p *prober) run(ctx context.Context) *link {
	c := p.client
	if c.target.protocol != ProtocolUnknown {
		return p.version(ctx)
	}
	if p.tryGRPC(ctx) {
		return &link{protocol: ProtocolGRPC, pool: c.h2}
	}
	if p.unreachable() {
		return nil
	}
	for _, protocol := range []Protocol{ProtocolConnect, ProtocolGRPCWeb} {
		if p.try(ctx, protocol, p.pool()) {
			return &link{protocol: protocol, pool: p.pool()}
		}
	}
	if !p.answered {
		return nil
	}
	if protocol := p.askAll(ctx, p.hints); protocol != ProtocolUnknown {
		return &link{protocol: protocol, pool: p.pool()}
	}
	return nil
}

// askAll has procedures tell the protocol, until one does.
func (p *prober) askAll(ctx context.Context, procedures []string) Protocol {
	for _, procedure := range procedures {
		if protocol := p.ask(ctx, procedure); protocol != ProtocolUnknown {
			return protocol
		}
	}
	return ProtocolUnknown
}

// servesDescribed reports whether a procedure of those that the backend should have shows
// the protocol that is spoken with it.
func (c *Client) servesDescribed(ctx context.Context) bool {
	l := c.link.Load()
	if l == nil {
		return false
	}
	p := &prober{client: c, http2: l.pool.http2()}
	return p.askAll(ctx, c.hints()) == l.protocol
}

// version finds out whether a peer of a known protocol offers HTTP/2. A server in the
// clear that has both gets HTTP/2, which carries every kind of method.
func (p *prober) version(ctx context.Context) *link {
	found := func() *link { return &link{protocol: p.client.target.protocol, pool: p.pool()} }
	err := p.greetHTTP2(ctx)
	switch {
	case err == nil:
		p.http2 = true
		return found()
	case errors.Is(err, errNoHTTP2), errors.Is(err, errHTTP1):
		return found()
	}
	p.answered = errors.Is(err, errNotHTTP)
	p.note("HTTP/2", err)
	if p.client.target.tls || !errors.Is(err, errHungUp) && !errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	// Some servers of HTTP/1.1 hang up on the greeting of HTTP/2, or wait for the rest of a request.
	if _, err := p.post(ctx, p.client.h1, healthProcedure, http.Header{"Content-Type": {unknownType}}, nil); err != nil {
		p.note("HTTP/1.1", err)
		return nil
	}
	return found()
}

// greetHTTP2 opens a connection of HTTP/2, which stays for calls.
func (p *prober) greetHTTP2(ctx context.Context) error {
	if !p.client.target.tls { // with TLS, the handshake says which versions there are
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.client.opts.AttemptTimeout)
		defer cancel()
	}
	conn, err := p.client.h2.h2.acquire(ctx)
	if err == nil {
		p.client.h2.h2.release(conn)
	}
	return err
}

func (p *prober) pool() *pool {
	if p.http2 {
		return p.client.h2
	}
	return p.client.h1
}

func (p *prober) note(what string, err error) {
	p.attempts = append(p.attempts, Attempt{What: what, Cause: err})
}

// unreachable reports whether the last attempt did not even get a connection, so
// that the next would not either.
func (p *prober) unreachable() bool {
	return errors.Is(p.attempts[len(p.attempts)-1].Cause, errNotConnected)
}

var errNotConnected = errors.New("no connection")

// try makes the health check in one protocol and reports whether the answer is
// one of that protocol.
func (p *prober) try(ctx context.Context, protocol Protocol, pool *pool) bool {
	what := protocol.String() + " over " + pool.version()
	header, body := http.Header{}, make([]byte, 5) // an empty message in a frame of gRPC
	switch protocol {
	case ProtocolGRPCWeb:
		header.Set("Content-Type", "application/grpc-web+proto")
		header.Set("X-Grpc-Web", "1")
	default:
		header.Set("Content-Type", "application/proto")
		header.Set("Connect-Protocol-Version", "1")
		body = nil
	}
	got, err := p.post(ctx, pool, healthProcedure, header, body)
	if err == nil {
		err = got.judge(protocol)
	}
	if err != nil {
		p.note(what, err)
	}
	return err == nil
}

// tryGRPC makes the health check as unary gRPC calls are made.
func (p *prober) tryGRPC(ctx context.Context) bool {
	c := p.client
	ctx, cancel := context.WithTimeout(ctx, c.opts.AttemptTimeout)
	defer cancel()
	f, answer := new(facts), new(grpcwire.Answer)
	req := c.wireRequest(ctx, healthProcedure, nil, nil)
	err := c.exchange(ctx, &req, answer, f)
	switch {
	case answer.HTTPStatus != 0:
		p.answered, p.http2 = true, true
		err = reply{status: answer.HTTPStatus, header: http.Header{"Content-Type": {answer.ContentType}}}.judge(ProtocolGRPC)
	case err != nil:
		err = p.sendFault(err, f)
	}
	if err != nil {
		p.note(ProtocolGRPC.String()+" over "+c.h2.version(), err)
	}
	return err == nil
}

// ask has a procedure tell the content types that it takes.
func (p *prober) ask(ctx context.Context, procedure string) Protocol {
	what := "content types of " + procedure
	got, err := p.post(ctx, p.pool(), procedure, http.Header{"Content-Type": {unknownType}}, nil)
	if err != nil {
		p.note(what, err)
		return ProtocolUnknown
	}
	types := got.accepted()
	takes := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(types, n) })
	}
	switch {
	case p.http2 && takes("application/grpc", "application/grpc+proto"):
		return ProtocolGRPC
	case takes("application/proto", "application/connect+proto"):
		return ProtocolConnect
	case takes("application/grpc-web", "application/grpc-web+proto"):
		return ProtocolGRPCWeb
	}
	p.note(what, fmt.Errorf("HTTP %d, Accept-Post %q", got.status, strings.Join(types, ", ")))
	if got.status == http.StatusUnsupportedMediaType && len(types) == 0 {
		return p.provoke(ctx, procedure)
	}
	return ProtocolUnknown
}

// provoke has a procedure that does not tell the content types that it takes refuse a
// request in its protocol. The request cannot be read, twice over: its compression has a
// name that no server knows, and its bytes are no message. So the method does not run.
func (p *prober) provoke(ctx context.Context, procedure string) Protocol {
	const unknownEncoding = "x-outrigger-probe"
	frame := []byte{1, 0, 0, 0, 2, 0xff, 0xff} // compressed
	for _, attempt := range [...]struct {
		protocol       Protocol
		kind, encoding string
		body           []byte
	}{
		{ProtocolGRPC, "application/grpc+proto", "Grpc-Encoding", frame},
		{ProtocolConnect, "application/proto", "Content-Encoding", frame[5:]},
		{ProtocolConnect, "application/connect+proto", "Connect-Content-Encoding", frame},
		{ProtocolGRPCWeb, "application/grpc-web+proto", "Grpc-Encoding", frame},
	} {
		if attempt.protocol == ProtocolGRPC && !p.http2 {
			continue
		}
		header := http.Header{"Content-Type": {attempt.kind}, attempt.encoding: {unknownEncoding}, "Te": {"trailers"}}
		if attempt.protocol == ProtocolConnect {
			header.Set("Connect-Protocol-Version", "1")
		}
		got, err := p.post(ctx, p.pool(), procedure, header, attempt.body)
		if err == nil {
			err = got.judge(attempt.protocol)
		}
		if err == nil {
			return attempt.protocol
		}
		p.note(attempt.kind+" at "+procedure, err)
	}
	return ProtocolUnknown
}

// reply is what an attempt got.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// post sends one request of the probe and reads a bounded piece of the answer.
func (p *prober) post(ctx context.Context, pool *pool, procedure string, header http.Header, body []byte) (reply, error) {
	const most = 64 << 10 // an error message fits; a web page need not
	c := p.client
	ctx, cancel := context.WithTimeout(ctx, c.opts.AttemptTimeout)
	defer cancel()
	f := new(facts)
	req, err := http.NewRequestWithContext(f.attach(ctx), http.MethodPost, c.target.baseURL()+procedure, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header = header
	if c.opts.UserAgent != "" {
		req.Header.Set("User-Agent", c.opts.UserAgent)
	}
	resp, err := (&doer{pool: pool, limit: most, gzip: true, credentials: c.credentials}).Do(req)
	if err != nil {
		return reply{}, p.sendFault(err, f)
	}
	defer func() { _ = resp.Body.Close() }()
	p.answered = true
	if pool.http2() {
		p.http2 = true
	}
	data, _ := io.ReadAll(resp.Body) // what is missing shows in the judgement
	return reply{status: resp.StatusCode, header: resp.Header, body: data}, nil
}

// sendFault says what an attempt without an answer means.
func (p *prober) sendFault(err error, f *facts) error {
	switch {
	case spokeOtherwise(err):
		p.answered = true
	case f.greeted() == greetTLS:
		p.answered = true
		return errWantsTLS
	case !f.onHTTP2 && f.greeted() == greetOther:
		p.answered = true
		return errNotHTTP
	case f.onHTTP2 && f.connected.Load():
		p.http2 = true
	case !f.connected.Load() && !errors.Is(err, errHungUp) && !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", errNotConnected, err)
	}
	return err
}

// judge returns nil where the reply can only come from a server of the protocol.
func (r reply) judge(protocol Protocol) error {
	contentType, _, _ := mime.ParseMediaType(r.header.Get("Content-Type"))
	ok := false
	switch protocol {
	case ProtocolGRPC:
		ok = contentType == "application/grpc" || strings.HasPrefix(contentType, "application/grpc+")
	case ProtocolGRPCWeb:
		ok = contentType == "application/grpc-web" || strings.HasPrefix(contentType, "application/grpc-web+")
	case ProtocolConnect:
		ok = r.status == http.StatusOK && (contentType == "application/proto" || contentType == "application/connect+proto") ||
			r.status != http.StatusOK && contentType == "application/json" && isConnectError(r.body)
	}
	if ok {
		return nil
	}
	return &AnswerError{Status: r.status, ContentType: clip(r.header.Get("Content-Type"))}
}

// AnswerError is an HTTP response that does not belong to the attempted protocol.
type AnswerError struct {
	Status      int
	ContentType string
}

// Error implements error.
func (e *AnswerError) Error() string { return fmt.Sprintf("HTTP %d %s", e.Status, e.ContentType) }

// isConnectError is stricter than the RPC library, which takes any JSON object
// for an error of the protocol: many servers answer 404 in JSON.
func isConnectError(body []byte) bool {
	var wire struct {
		Code connect.Code `json:"code"`
	}
	return json.Unmarshal(body, &wire) == nil && wire.Code >= connect.CodeCanceled && wire.Code <= connect.CodeUnauthenticated
}

// accepted lists the media types of Accept-Post, which servers send with 415.
func (r reply) accepted() []string {
	var types []string
	for _, line := range r.header.Values("Accept-Post") {
		for part := range strings.SplitSeq(line, ",") {
			if t, _, err := mime.ParseMediaType(strings.TrimSpace(part)); err == nil {
				types = append(types, t)
			}
		}
	}
	return types
}
