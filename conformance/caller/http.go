// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func httpEdges() []Edge {
	edge := func(name, path string, d Dialect, h2, batch bool) Edge {
		ids := AnyIDs
		if path == "/rpc" {
			ids = StringIDs
		}
		return Edge{Name: name, IDs: ids, Dial: func(_ testing.TB, t Target) Agent {
			return newHTTP(t, path, d, h2, batch)
		}}
	}
	return []Edge{
		edge("mcp-modern", "/mcp", Modern, false, false),
		edge("mcp-modern-h2c", "/mcp", Modern, true, false),
		edge("mcp-legacy", "/mcp", Legacy, true, false),
		edge("rpc", "/rpc", Canonical, false, false),
		edge("rpc-h2c", "/rpc", Canonical, true, false),
		edge("rpc-message-form", "/rpc", MessageForm, true, false),
		edge("rpc-batch", "/rpc", Canonical, true, true),
	}
}

// HTTP makes an agent that is not on the list of edges.
func HTTP(t Target, path string, d Dialect, h2 bool) Agent { return newHTTP(t, path, d, h2, false) }

func newHTTP(t Target, path string, d Dialect, h2, batch bool) *httpAgent {
	return &httpAgent{url: "http://" + t.Addr + path, dialect: d, batch: batch, client: Client(h2)}
}

// Client is an HTTP client with its own connections, over HTTP/1.1 or h2c.
func Client(h2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	// 64 connections hold the 50 calls of an agent at once.
	return &http.Client{Transport: &http.Transport{Protocols: protocols, MaxIdleConnsPerHost: 64}}
}

// httpAgent speaks JSON-RPC over plain HTTP.
type httpAgent struct {
	url     string
	dialect Dialect
	batch   bool
	client  *http.Client
}

func (a *httpAgent) Close() { a.client.CloseIdleConnections() }

func (a *httpAgent) CallAll(ctx context.Context, calls []Call) []Answer {
	if a.batch {
		return a.callBatch(ctx, calls)
	}
	return each(calls, func(c Call) Answer {
		status, body, header, err := a.post(ctx, a.dialect.Request(c), c)
		if err != nil {
			return failed(err)
		}
		answer := a.dialect.Parse(body, status)
		answer.Header = header
		return answer
	})
}

// callBatch sends all calls in one array and finds the answers by their ids and
// by their place, which must agree.
func (a *httpAgent) callBatch(ctx context.Context, calls []Call) []Answer {
	lines := make([]string, len(calls))
	for i, c := range calls {
		lines[i] = a.dialect.Request(c)
	}
	answers := make([]Answer, len(calls))
	fail := func(err error) []Answer {
		for i := range answers {
			answers[i] = failed(err)
		}
		return answers
	}
	status, body, _, err := a.post(ctx, "["+strings.Join(lines, ",")+"]", Call{})
	if err != nil {
		return fail(err)
	}
	var replies []Reply
	if err := json.Unmarshal(body, &replies); err != nil || len(replies) != len(calls) || status != http.StatusOK {
		return fail(fmt.Errorf("HTTP %d with %d answers to %d calls (%w): %.200s", status, len(replies), len(calls), err, body))
	}
	for i, reply := range replies {
		answers[i] = a.dialect.answer(reply, 0)
	}
	return answers
}

func (a *httpAgent) post(ctx context.Context, body string, c Call) (int, []byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, strings.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	switch a.dialect {
	case Modern:
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/call")
		req.Header.Set("Mcp-Name", a.dialect.Name(c.Tool))
	case Legacy:
		req.Header.Set("Mcp-Protocol-Version", LegacyVersion)
	case Oldest:
		req.Header.Set("Mcp-Protocol-Version", OldestVersion)
	case Canonical, MessageForm:
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, raw, resp.Header, err
}
