// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// edge is one column of the table: a way in, as far as bad input is concerned.
type edge string

const (
	mcpModern    edge = "/mcp 2026-07-28"
	mcpLegacy    edge = "/mcp 2025-11-25"
	mcpOldest    edge = "/mcp 2025-03-26"
	rpcCanonical edge = "/rpc"
	rpcMessage   edge = "/rpc message form"
	stdio        edge = "stdio"
	toolJSON     edge = "ToolService JSON"
	// toolBinary is over Connect, gRPC and gRPC-Web, and Exchange, which carries envelopes.
	toolBinary edge = "ToolService binary"
	typedJSON  edge = "typed JSON"
	typedWire  edge = "typed binary"
	admin      edge = "admin"
)

func everyEdge() []edge {
	return []edge{mcpModern, mcpLegacy, mcpOldest, rpcCanonical, rpcMessage, stdio, toolJSON, toolBinary, typedJSON, typedWire, admin}
}

// Groups of edges that one test or one reason holds for.
func overMCP() []edge      { return []edge{mcpModern, mcpLegacy, mcpOldest} }
func overRPC() []edge      { return []edge{rpcCanonical, rpcMessage} }
func overMessages() []edge { return slices.Concat(overMCP(), overRPC(), []edge{stdio}) }
func overTyped() []edge    { return []edge{typedJSON, typedWire} }
func overProtobuf() []edge { return slices.Concat([]edge{toolJSON, toolBinary}, overTyped()) }
func forCallers() []edge   { return slices.Concat(overMessages(), overProtobuf()) }
func overHTTP() []edge     { return slices.Concat(overMCP(), overRPC(), overProtobuf()) }

// The rows, in the words of the page of bad input.
const (
	rowJSON      = "truncated JSON, byte order mark, invalid UTF-8, lone surrogate, trailing data, duplicate name anywhere (also in raw params and in escaped form), nesting over 64"
	rowEnvelope  = "array body where batches do not exist; id null, bool, object or 1.5; wrong or missing `jsonrpc`; `method` with `result`; `Method`, `param\\u017f`, `method\\u0000` as names of envelope members"
	rowIDs       = "id 2^53+1, an id of 1 MB, an id with escapes"
	rowFlight    = "the same id twice in flight on one stdio or exchange stream"
	rowHeaders   = "header differs from body, is missing, is repeated with another value, or carries bad base64"
	rowProtocol  = "unknown version, missing `_meta`, unknown method"
	rowPages     = "foreign `Origin` (also `null`, also twice), foreign `Host` on a loopback listener; every path, the admin listener too"
	rowBodies    = "`text/plain` or no content type; body over the limit, chunked too; compressed bomb"
	rowNumbers   = "int32 overflow, 5.5 for an integer, 1e999, 1e1000001, a number of 100,000 digits, unknown field, wrong type deep inside, both names of one field"
	rowArguments = "`arguments` null, missing, array, string with JSON in it"
	rowNames     = "tool name with dots or underscores; unknown tool; hidden tool"
	rowTokens    = "expired token, wrong audience, `alg: none`, key rotated, JWKS slow or at a private address through a redirect"
	rowOthers    = "missing scope (also for a tool that is not listed for lack of it); another caller's task id, cursor or `requestState`; tampered or expired state"
	rowSlow      = "slow headers, slow body, half-open connection, client gone in mid-call"
	rowBackend   = "backend down, slow, killed in mid-call, sending garbage, an oversize message, a schema-breaking result, an unknown status code"
	rowReflect   = "reflection failing, lying, changing in mid-run, or with a file missing"
	rowInjection = "header or metadata injection through arguments or names; newline in a log field"
	rowDisk      = "full disk or unwritable folder for run records; closed stdout on stdio"
	rowConfig    = "configuration with ten faults"
)

// held is a test that holds a row on some edges: "folder/file_test.go TestName",
// or the path of a script, from the root of the repository.
type held struct {
	edges []edge
	tests []string
}

// without is why a row cannot exist on some edges.
type without struct {
	edges []edge
	why   string
}

// badRow is one row of the page of bad input.
type badRow struct {
	title   string
	held    []held
	without []without
}

// TestEveryRowOfBadInputIsHeldOnEveryEdge reads nothing but the table: every row is
// there, each is tested on each edge or cannot exist there for a reason in words,
// and the tests that it names exist.
func TestEveryRowOfBadInputIsHeldOnEveryEdge(t *testing.T) {
	t.Parallel()
	rows := badRows()
	var titles []string
	for _, row := range rows {
		titles = append(titles, row.title)
	}
	raw, err := os.ReadFile(filepath.Join("testdata", "badinput_rows.txt"))
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Split(strings.TrimSpace(string(raw)), "\n")
	for _, title := range page {
		if !slices.Contains(titles, title) {
			t.Errorf("no row is called %q", title)
		}
	}
	if len(titles) != len(page) {
		t.Errorf("the table has %d rows, the page %d", len(titles), len(page))
	}
	ran := inputsRun()
	for _, row := range rows {
		for _, e := range everyEdge() {
			isHeld, why := row.on(e)
			isHeld = isHeld || ran[row.title][e]
			switch {
			case !isHeld && why == "":
				t.Errorf("%s: neither a test nor a reason on %s", row.title, e)
			case isHeld && why != "":
				t.Errorf("%s: %s has a test, and cannot exist because %s", row.title, e, why)
			}
		}
		for _, h := range row.held {
			for _, test := range h.tests {
				exists(t, test)
			}
		}
	}
}

// on says whether a named test holds a row on an edge, and why none can.
func (r badRow) on(e edge) (isHeld bool, why string) {
	for _, h := range r.held {
		isHeld = isHeld || slices.Contains(h.edges, e)
	}
	for _, a := range r.without {
		if slices.Contains(a.edges, e) {
			why = a.why
		}
	}
	return isHeld, why
}

// inputsRun says for which rows this package sends inputs itself, and where.
func inputsRun() map[string]map[edge]bool {
	ran := map[string]map[edge]bool{}
	mark := func(row string, e edge) {
		if ran[row] == nil {
			ran[row] = map[edge]bool{}
		}
		ran[row][e] = true
	}
	for _, in := range argumentInputs() {
		for _, e := range forCallers() {
			if e != typedWire && in.end(entryPoint{edge: e}) != unsent {
				mark(in.row, e)
			}
		}
	}
	for _, in := range wireInputs() {
		mark(in.row, typedWire)
	}
	return ran
}

// exists checks that a test is where the table says.
func exists(t *testing.T, where string) {
	t.Helper()
	file, name, isTest := strings.Cut(where, " ")
	path := filepath.Join("..", filepath.FromSlash(file))
	if !isTest {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		return
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return
	}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
			return
		}
	}
	t.Errorf("%s has no test %s", file, name)
}
