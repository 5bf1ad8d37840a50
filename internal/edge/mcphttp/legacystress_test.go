// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestClientsNeverMeet has many clients of every era on one sidecar, all with
// the same ids, tokens and methods at the same time: what each gets, progress,
// questions, answers and changes, has its own mark and no other's. Half of the
// legacy ones lose every other connection.
func TestClientsNeverMeet(t *testing.T) {
	t.Parallel()
	const each, rounds = 4, 5
	rig, url := office(t, officeOptions{more: []mcptest.NativeTool{markTool()}})
	var clients sync.WaitGroup
	for n := range each {
		for _, version := range revisions() {
			c := openAs(t, mcptest.Client(t, 1+n%2), url, version, allAbilities)
			m := &marked{legacy: c, mark: fmt.Sprintf("%s-%d", version, n), breaks: n%2 == 0}
			empty(t, c.post(subscription("subscribe", "desk://mark/"+m.mark)))
			get := c.stream(http.MethodGet, "")
			clients.Go(func() { m.hear(get, rounds) })
			clients.Go(func() {
				for round := range rounds {
					m.call(round)
					tell(t, rig, changed(fmt.Sprintf("desk://mark/%s/%d", m.mark, round)))
				}
			})
		}
		m := &marked{legacy: &legacy{t: t, url: url, http: mcptest.Client(t, 1+n%2)}, mark: fmt.Sprintf("modern-%d", n)}
		clients.Go(func() {
			for range rounds {
				m.callModern()
			}
		})
		bare := &marked{legacy: &legacy{t: t, url: url, http: mcptest.Client(t, 1)}, mark: fmt.Sprintf("bare-%d", n)}
		clients.Go(func() {
			for range rounds {
				bare.callBare()
			}
		})
	}
	clients.Wait()
	idle(t, rig.Bridge)
}

// markTool reports a mark as progress, twice, asks about it if it can, and
// answers with what it was told.
func markTool() mcptest.NativeTool {
	declared := mcptest.JSONTool("mark", "Repeats a mark.", `{"type":"object","properties":{"mark":{"type":"string"}}}`, "")
	return mcptest.NativeTool{Declared: declared, Run: func(_ context.Context, call *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
		raw, _ := jsontext.Lookup(call.GetArgumentsJson(), "mark")
		mark, _ := jsontext.Text(raw)
		told := call.GetInputResponses()["mark"]
		abilities := call.GetContext().GetCapabilities()
		for n := range 2 {
			if err := send(mcptest.Progress(float64(n+1), "for "+mark)); err != nil {
				return nil, err
			}
		}
		ask := map[string]*outriggerv1.InputRequest{}
		switch {
		case told != nil:
		case abilities.GetElicitation().GetForm():
			ask["mark"] = mcptest.AskForm("of "+mark, `{"type":"object","properties":{"mark":{"type":"string"}}}`)
		case abilities.GetSampling() != nil:
			ask["mark"] = mcptest.AskModel("of " + mark)
		}
		if len(ask) > 0 {
			return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_InputRequired{InputRequired: &outriggerv1.InputRequired{InputRequests: ask}}}, nil
		}
		answered := string(told.GetElicitation().GetContentJson()) + told.GetSampling().GetModel()
		return mcptest.Success("", mcptest.TextBlock("call of "+mark+", answer of "+answered)), nil
	}}
}

// marked is a client with its own mark.
type marked struct {
	*legacy
	mark   string
	breaks bool
}

// own reports whether a text has this client's mark and, by its form, no
// other's.
func (m *marked) own(text string) bool {
	rest := strings.ReplaceAll(text, m.mark, "")
	return rest != text && !strings.Contains(rest, "modern-") && !strings.Contains(rest, "bare-") && !strings.Contains(rest, "2025-")
}

func (m *marked) params() string {
	return `"name":"mark","arguments":{"mark":"` + m.mark + `"}`
}

// call makes one call in a session. Its ids are those of everybody.
func (m *marked) call(round int) {
	body := withID(fmt.Sprint(round), request("tools/call", m.params()+`,`+wantsProgress))
	resp, err := m.try(context.Background(), http.MethodPost, body)
	for n := 0; err == nil; n++ {
		var last string
		var done bool
		if last, done, err = m.follow(resp, round, n); done || err != nil {
			break
		}
		resp, err = m.try(context.Background(), http.MethodGet, "", "Last-Event-ID: "+last)
	}
	if err != nil {
		m.t.Errorf("%s, round %d: %v", m.mark, round, err)
	}
}

// follow reads a stream to the result, or, where the connection is to break,
// for one message.
func (m *marked) follow(resp *http.Response, round, connection int) (last string, done bool, err error) {
	defer func() { _ = resp.Body.Close() }()
	e := newSSE(m.t, resp)
	for {
		got, err := e.take()
		if err != nil {
			return "", false, fmt.Errorf("connection %d: %w", connection, err)
		}
		if got.data == "" {
			continue
		}
		if !m.own(got.data) && !strings.Contains(got.data, `"method":"notifications/progress"`) || strings.Contains(got.data, "for ") && !strings.Contains(got.data, "for "+m.mark) {
			return "", false, fmt.Errorf("got %s", got.data)
		}
		msg := got.message(m.t)
		switch msg.Kind {
		case jsonrpc.KindRequest:
			if err := m.reply(msg); err != nil {
				return "", false, err
			}
		case jsonrpc.KindSuccess:
			if string(msg.ID.Raw()) != fmt.Sprint(round) {
				return "", false, fmt.Errorf("an answer to %s", msg.ID.Raw())
			}
			return "", true, nil
		}
		if m.breaks {
			return e.last, false, nil
		}
	}
}

// reply answers a question with the mark.
func (m *marked) reply(q *jsonrpc.Message) error {
	result := `"result":{"action":"accept","content":{"mark":"` + m.mark + `"}}`
	if q.Method == "sampling/createMessage" {
		result = `"result":{"role":"assistant","content":{"type":"text","text":"x"},"model":"` + m.mark + `"}`
	}
	resp, err := m.try(context.Background(), http.MethodPost, respond(q, result))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusAccepted {
		body, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("the answer: %d %s", resp.StatusCode, body)
	}
	return nil
}

// hear wants each change that it made once, in order, and nothing else.
func (m *marked) hear(get *sse, rounds int) {
	for n := 0; n < rounds; {
		got, err := get.take()
		if err != nil {
			m.t.Errorf("%s hears: %v", m.mark, err)
			return
		}
		if got.data == "" {
			continue
		}
		if want := fmt.Sprintf(`"uri":"desk://mark/%s/%d"`, m.mark, n); !strings.Contains(got.data, want) {
			m.t.Errorf("%s hears %s, want %s", m.mark, got.data, want)
			return
		}
		n++
	}
}

// whole sends a message and returns all of the answer, of which every message
// has to be its own.
func (m *marked) whole(body string, headers ...string) string {
	resp, err := m.try(context.Background(), http.MethodPost, body, headers...)
	if err != nil {
		m.t.Error(err)
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !m.own(string(text)) || !strings.Contains(string(text), `"id":0`) {
		m.t.Errorf("%s: %d %s, %v", m.mark, resp.StatusCode, text, err)
	}
	return string(text)
}

// callModern makes a call of two rounds.
func (m *marked) callModern() {
	headers := modern("tools/call", "Mcp-Name: mark")
	tail := `,` + metaOf(`{"elicitation":{}}`, `,"progressToken":"p"`)
	first := m.whole(request("tools/call", m.params()+tail), headers...)
	if !strings.Contains(first, `"input_required"`) || strings.Contains(first, `"method":"elicitation/create","id"`) {
		m.t.Errorf("%s: %s", m.mark, first)
	}
	answers := `,"inputResponses":{"mark":{"action":"accept","content":{"mark":"` + m.mark + `"}}}`
	m.whole(request("tools/call", m.params()+answers+tail), headers...)
}

// callBare makes a call of the legacy era without a session.
func (m *marked) callBare() { m.whole(request("tools/call", m.params()+`,`+wantsProgress)) }

// TestSameIDsInEveryEraOverOneConnection has what the eras have in common asked in all of them
// at a time, over one connection.
func TestSameIDsInEveryEraOverOneConnection(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{})
	url := mcptest.Serve(t, mcphttp.New(rig.Bridge, mcphttp.Options{}))
	client := mcptest.Client(t, 2)
	var asking sync.WaitGroup
	for n := range 8 {
		for _, version := range append(revisions(), "2026-07-28") {
			c := &legacy{t: t, url: url, http: client}
			headers, more := modern("tools/call", "Mcp-Name: lab_echo"), ","+meta
			if version != "2026-07-28" {
				c, headers, more = openAs(t, client, url, version, `{}`), nil, ""
			}
			mark := fmt.Sprintf("%s/%d", version, n)
			asking.Go(func() {
				for range 10 {
					resp, err := c.try(context.Background(), http.MethodPost, request("tools/call", `"name":"lab_echo","arguments":{"nonce":"`+mark+`"}`+more), headers...)
					if err != nil {
						t.Error(err)
						return
					}
					body, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if err != nil || strings.Count(string(body), mark) < 1 || strings.Contains(string(body), "resultType") != (version == "2026-07-28") {
						t.Errorf("%s: %s, %v", mark, body, err)
					}
				}
			})
		}
	}
	asking.Wait()
	idle(t, rig.Bridge)
}
