// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// post sends messages of JSON-RPC to one URL.
type post struct {
	client     *http.Client
	url, shown string
	token      func() string
}

// authorize adds the token, if there is one.
func (p *post) authorize(header http.Header) {
	if p.token != nil {
		header.Set("Authorization", "Bearer "+p.token())
	}
}

// request is one message of JSON-RPC with the headers of its transport.
type request struct {
	method string
	// params is an object.
	params []byte
	header http.Header
	// notice takes messages that come before the reply, such as progress; nil ignores them. Its error ends the request.
	notice func(message json.RawMessage) error
	// resume continues a stream that ended before the reply, behind an event; nil where that is not possible.
	resume func(ctx context.Context, lastEvent string) (*http.Response, error)
}

// The id of every request: each has a stream to itself.
const requestID = `"1"`

// reply is what answers a request.
type reply struct {
	status int
	header http.Header
	result json.RawMessage
	// err is the error of JSON-RPC; nil for none.
	err json.RawMessage
}

// failure is the canonical form of an error; nil for none.
func (r *reply) failure() error {
	if r.err == nil {
		return nil
	}
	e := errorOf(r.err)
	if _, ok := text(e.Data, "code"); !ok && r.status == http.StatusUnauthorized {
		e.Code = errmap.Unauthenticated
	}
	return e
}

// do sends a request and waits for its reply.
func (p *post) do(ctx context.Context, r *request) (*reply, error) {
	body := jsontext.AppendString([]byte(`{"jsonrpc":"2.0","id":`+requestID+`,"method":`), r.method)
	body = append(append(append(body, `,"params":`...), r.params...), '}')
	resp, err := p.send(ctx, http.MethodPost, body, r.header)
	if err != nil {
		return nil, unreachable(ctx, p.shown, err)
	}
	defer func() { _ = resp.Body.Close() }()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch kind {
	case "text/event-stream":
		return p.events(ctx, r, resp)
	case "application/json":
		raw, err := readAll(resp.Body)
		if err != nil {
			return nil, broken(ctx, p.shown, err)
		}
		out, isReply, err := p.read(raw, resp)
		if err == nil && !isReply {
			err = foreign(p.shown, "it sent a message that is no reply")
		}
		return out, err
	}
	what := fmt.Sprintf("status %d, content type %q", resp.StatusCode, kind)
	if resp.StatusCode == http.StatusServiceUnavailable { // of a proxy before it
		return nil, unreachable(ctx, p.shown, errors.New(what))
	}
	e := foreign(p.shown, what)
	e.isAway = resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusGatewayTimeout
	return nil, e
}

// send makes one HTTP request.
func (p *post) send(ctx context.Context, method string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	p.authorize(req.Header)
	return p.client.Do(req)
}

// read reads one message. It is false for one that is no reply.
func (p *post) read(raw []byte, resp *http.Response) (*reply, bool, error) {
	if fault := jsontext.Check(raw, maxDepth); fault != nil || !jsontext.IsObject(raw) {
		return nil, false, foreign(p.shown, "what it sent is no JSON object")
	}
	if _, ok := jsontext.Lookup(raw, "method"); ok {
		return nil, false, nil
	}
	out := &reply{status: resp.StatusCode, header: resp.Header}
	var hasResult, hasError bool
	out.result, hasResult = jsontext.Lookup(raw, "result")
	out.err, hasError = jsontext.Lookup(raw, "error")
	if hasResult == hasError {
		return nil, false, foreign(p.shown, "its reply has neither a result nor an error")
	}
	return out, true, nil
}

// readAll reads a whole message, which is bounded.
func readAll(body io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(body, maxBytes+1))
	if err == nil && len(raw) > maxBytes {
		err = errTooLarge
	}
	return raw, err
}

var errTooLarge = fmt.Errorf("the response is larger than %d bytes; ask for less with --fields", maxBytes)

// broken is an answer that broke off.
func broken(ctx context.Context, url string, err error) error {
	if ctx.Err() != nil {
		return unreachable(ctx, url, err)
	}
	if errors.Is(err, errTooLarge) {
		return Canonical(errmap.New(errmap.ResourceExhausted, errmap.Message(err.Error())))
	}
	e := Canonical(errmap.New(errmap.TransportError, errmap.Messagef("the response of %s broke off: %v", url, err)))
	e.isAway = true
	return e
}

// The bounds of a stream that is resumed: how often, and how long to wait before.
const (
	maxResumes  = 10_000
	leastRetry  = 50 * time.Millisecond
	usualRetry  = time.Second
	longestWait = 30 * time.Second
)

// events reads a stream of server-sent events up to the reply.
func (p *post) events(ctx context.Context, r *request, resp *http.Response) (*reply, error) {
	last, retry := "", usualRetry
	for range maxResumes {
		out, err := p.readEvents(r, resp, &last, &retry)
		var told *Error
		if out != nil || errors.As(err, &told) {
			return out, err
		}
		if ctx.Err() != nil || last == "" || r.resume == nil {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return nil, broken(ctx, p.shown, err)
		}
		wait := time.NewTimer(min(max(retry, leastRetry), longestWait))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, unreachable(ctx, p.shown, ctx.Err())
		}
		next, err := r.resume(ctx, last)
		if err != nil {
			return nil, unreachable(ctx, p.shown, err)
		}
		defer func() { _ = next.Body.Close() }()
		if kind, _, _ := mime.ParseMediaType(next.Header.Get("Content-Type")); kind != "text/event-stream" {
			return nil, foreign(p.shown, fmt.Sprintf("status %d to the continuation of a stream", next.StatusCode))
		}
		resp = next
	}
	return nil, foreign(p.shown, "the stream ends again and again without a reply")
}

// readEvents reads the events of one connection (WHATWG HTML, server-sent events). It returns no reply where the connection ends
// before.
func (p *post) readEvents(r *request, resp *http.Response, last *string, retry *time.Duration) (*reply, error) {
	lines := bufio.NewScanner(io.LimitReader(resp.Body, maxBytes+1))
	lines.Buffer(make([]byte, 0, 4<<10), maxBytes)
	var data []byte
	for lines.Scan() {
		line := lines.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if len(data) == 0 {
				continue
			}
			out, isReply, err := p.read(data, resp)
			if isReply || err != nil {
				return out, err
			}
			if r.notice != nil {
				if err := r.notice(bytes.Clone(data)); err != nil {
					return nil, err
				}
			}
			data = data[:0]
		case name == "data":
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case name == "id":
			*last = value
		case name == "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
				*retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
	return nil, lines.Err()
}
