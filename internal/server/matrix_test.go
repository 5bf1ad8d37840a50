// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// cell is one cell of the matrix, after it has run.
type cell struct {
	who       who
	edge      string
	operation *operation
	outcome   outcome
	// denied is set if the caller may not do it.
	denied bool
	// rule is the one that denies it, if the policy does.
	rule string
}

// witness looks at what each cell left.
type witness func(t *testing.T, m *matrix, c cell)

// TestMatrix holds identity, tool, edge and operation against one table: what a caller may
// not do is refused with the same code and the exact challenge on every edge, and nothing
// of it reaches the backend. Each cell that reaches the pipeline leaves exactly its line in the
// audit trail, with the caller, the tool, the decision and the code, and each request one span.
func TestMatrix(t *testing.T) {
	t.Parallel()
	x, r := newTrail(t), newExporter()
	m := newMatrix(t, newDirectory(t, callers()), withTrail(x.path), func(o *server.Options) { o.Tracer = r.tracer() })
	r.serve(t, m.rig)
	m.url = r.url
	runMatrix(t, m, callers(), func(t *testing.T, m *matrix, c cell) {
		x.witness(t, m, c)
		r.witness(t, m, c)
	})
	x.check(t, m)
}

// TestMatrixWithoutAuthentication: without a way to identify callers, everyone may do
// everything, and calls leave lines without an identity.
func TestMatrixWithoutAuthentication(t *testing.T) {
	t.Parallel()
	x := newTrail(t)
	m := newMatrix(t, nil, withTrail(x.path))
	runMatrix(t, m, []who{{name: "anonymous"}}, x.witness)
	x.check(t, m)
}

func runMatrix(t *testing.T, m *matrix, all []who, after witness) {
	t.Helper()
	cells := 0
	for _, w := range all {
		for _, e := range columns() {
			for _, o := range operations() {
				t.Run(w.name+"/"+e.name+"/"+o.name, func(t *testing.T) {
					reachedBefore, seenBefore := m.backend.calls.Load(), len(m.rig.Native.Seen())
					got, ok := e.run(t, m, w, &o)
					if !ok {
						t.Skip("this edge has no such operation")
					}
					cells++
					want := w.challenge(&o)
					if want == "" {
						if got.code != o.expected(w) || got.challenge != "" {
							t.Errorf("a caller who may: %+v, want %q", got, o.expected(w))
						}
					} else {
						checkRefusal(t, &e, got, want)
						if m.backend.calls.Load() != reachedBefore || len(m.rig.Native.Seen()) != seenBefore {
							t.Error("it reached the backend")
						}
					}
					after(t, m, cell{who: w, edge: e.name, operation: &o, outcome: got, denied: want != ""})
				})
			}
		}
	}
	t.Logf("%d cells", cells)
}

// checkRefusal: the code, one challenge, and the status where the edge has one.
func checkRefusal(t *testing.T, e *column, got outcome, want string) {
	t.Helper()
	if e.bare {
		want = ""
	}
	if got.code != string(errmap.PermissionDenied) || got.challenge != want {
		t.Errorf("got %+v\nwant PERMISSION_DENIED and %s", got, want)
	}
	switch {
	case got.status == 0:
		if got.body != "" && got.body != connect.CodePermissionDenied.String() && !e.bare {
			t.Errorf("code %s", got.body)
		}
	case (got.status == http.StatusForbidden) == e.bare:
		t.Errorf("status %d", got.status)
	}
	if strings.HasPrefix(e.name, "MCP") && !strings.Contains(got.body, `"code":-31007`) ||
		strings.HasPrefix(e.name, "/rpc") && !strings.Contains(e.name, "message") && !strings.Contains(got.body, `"code":-32007`) {
		t.Errorf("the number of the error: %s", got.body)
	}
}

// TestMatrixOfLists: each caller sees the tools that it may call, on every edge, and a description counts no others.
func TestMatrixOfLists(t *testing.T) {
	t.Parallel()
	m := newMatrix(t, newDirectory(t, callers()), nil)
	all := m.rig.Live.Current().Tools()
	for _, w := range callers() {
		var want []string
		for _, tool := range all {
			if w.mayCall(tool.Name, scopeOf(tool)) {
				want = append(want, tool.Name)
			}
		}
		if w.name == "issuer A: ann" && len(want) != len(all) || w.name == "issuer A: ann, without scopes" && !slices.Equal(want, []string{"fleet.get_map"}) {
			t.Fatalf("%s: the table says %v", w.name, want)
		}
		api := outriggerv1connect.NewToolServiceClient(w.client(t, 2), m.url)
		if about, err := api.Describe(t.Context(), connect.NewRequest(&outriggerv1.DescribeRequest{})); err != nil || int(about.Msg.GetToolsCount()) != len(want) {
			t.Errorf("%s: Describe counts %d tools, want %d: %v", w.name, about.Msg.GetToolsCount(), len(want), err)
		}
		for edge, got := range m.lists(t, w) {
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s on %s sees\n%v, want\n%v", w.name, edge, got, want)
			}
		}
	}
}

// scopeOf is what the table says that a tool needs; "" for none.
func scopeOf(tool *catalog.Tool) string {
	switch {
	case tool.Name == "fleet.get_map":
		return ""
	case tool.Annotations.ReadOnly != nil && *tool.Annotations.ReadOnly:
		return "tools:read"
	}
	return "tools:write"
}

// lists are the canonical names that a caller sees, by edge.
func (m *matrix) lists(t *testing.T, w who) map[string][]string {
	t.Helper()
	client := w.client(t, 1)
	bodies := map[string]string{
		"/rpc":           canonical(t, m, w, "tools/list", " ").body,
		"MCP 2026-07-28": callModern(t, client, m.url, "tools/list", "", "").body,
	}
	inExchange, _ := exchange(t, m, w, &operation{canonical: "tools/list", canonicalParams: " "})
	bodies["Exchange"] = `{"result":` + inExchange.body + `}`
	for _, revision := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		bodies["MCP "+revision] = openSession(t, client, m.url, revision).send(t, client, "tools/list", "").body
	}
	out := map[string][]string{}
	for edge, body := range bodies {
		out[edge] = m.namesIn(t, body)
	}
	for name, protocol := range map[string][]connect.ClientOption{"Connect": nil, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()}} {
		api := outriggerv1connect.NewToolServiceClient(w.client(t, 2), m.url, protocol...)
		listed, err := api.ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range listed.Msg.GetTools() {
			out["ListTools, "+name] = append(out["ListTools, "+name], tool.GetName())
		}
		out["WatchTools, "+name] = watched(t, api)
	}
	return out
}

// watched is the first thing that WatchTools says.
func watched(t *testing.T, api outriggerv1connect.ToolServiceClient) (names []string) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	stream, err := api.WatchTools(ctx, connect.NewRequest(&outriggerv1.WatchToolsRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	for _, tool := range stream.Msg().GetAdded() {
		names = append(names, tool.GetName())
	}
	return names
}

// namesIn are the canonical names of the tools in a list.
func (m *matrix) namesIn(t *testing.T, body string) (names []string) {
	t.Helper()
	var reply struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(body), &reply); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, shown := range reply.Result.Tools {
		tool, ok := m.rig.Live.Current().Lookup(shown.Name)
		if !ok {
			t.Fatalf("%s is no tool", shown.Name)
		}
		names = append(names, tool.Name)
	}
	return names
}
