// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// The parts of a query that can be wrong without anybody noticing: Prometheus
// answers a name, a label or a value that does not exist with nothing at all.
var (
	// ourMetric is a metric, with its selector where it has one. The lists of labels
	// in docs/metrics.md look like selectors without values.
	ourMetric = regexp.MustCompile(`\b((?:outrigger|process|go)_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	grouping  = regexp.MustCompile(`\b(?:by|on|without|ignoring) \(([^)]*)\)`)
	condition = regexp.MustCompile(`^([a-z_]+) *(?:(=~|=|!=|!~) *"([^"]*)")?$`)
	sample    = regexp.MustCompile(`(?m)^([a-z0-9_]+)(?:\{(.*)\})? \S+$`)
	pair      = regexp.MustCompile(`([a-z_]+)="`)
)

// TestQueriesInTheDocuments holds every query and every list of labels in the
// documents against the page of metrics of a sidecar at work.
func TestQueriesInTheDocuments(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "serve", "--demo", "--caller-rate", "0.000001", "--allowed-origins", "https://console.example")
	for _, call := range []string{"lab.echo", "lab.echo", "fleet.cancel_order"} {
		postRPC(t, p.main, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"`+call+`","arguments":{"nonce":"n"}}}`)
	}
	postRPC(t, p.main, "{}")
	postRPC(t, p.main+"/none", "{}")
	page, _ := get(t, oneShot(), p.admin+"/metrics")
	labels := map[string][]string{}
	for _, s := range sample.FindAllStringSubmatch(page, -1) {
		known := labels[s[1]]
		for _, l := range pair.FindAllStringSubmatch(s[2], -1) {
			if !slices.Contains(known, l[1]) {
				known = append(known, l[1])
			}
		}
		labels[s[1]] = known
		if base, ok := strings.CutSuffix(s[1], "_count"); ok {
			labels[base] = known // a histogram, which the documents name as a whole
		}
	}
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range codeIn(string(text)) {
			checked += checkQuery(t, filepath.Base(path), code, labels)
		}
	}
	if checked < 40 {
		t.Errorf("%d labels in all documents: is the pattern right?", checked)
	}
}

// codeIn are the pieces of code in a document: spans, and blocks by paragraph of
// their list.
func codeIn(text string) []string {
	var out []string
	for i, part := range strings.Split(text, "```") {
		if i%2 == 1 {
			out = append(out, strings.Split(part, "- alert:")...)
			continue
		}
		for j, span := range strings.Split(part, "`") {
			if j%2 == 1 {
				out = append(out, span)
			}
		}
	}
	return out
}

// checkQuery checks the labels of one piece of code and returns how many there
// were.
func checkQuery(t *testing.T, page, code string, labels map[string][]string) int {
	t.Helper()
	code = strings.ReplaceAll(code, `\|`, "|") // as tables have to write it
	n := 0
	all := []string{"job", "instance"} // that Prometheus adds
	for _, m := range ourMetric.FindAllStringSubmatch(code, -1) {
		known, ok := labels[m[1]]
		if !ok {
			if strings.ContainsAny(code, "({") && !unseen(m[1]) {
				t.Errorf("%s: %s is not on the page of a sidecar at work: %s", page, m[1], code)
			}
			continue
		}
		all = append(all, known...)
		if m[2] == "" {
			continue
		}
		for c := range strings.SplitSeq(m[2], ",") {
			parts := condition.FindStringSubmatch(strings.TrimSpace(c))
			if parts == nil {
				t.Errorf("%s: %q is no condition: %s", page, c, code)
				continue
			}
			n++
			if !slices.Contains(known, parts[1]) {
				t.Errorf("%s: %s has no label %s: %s", page, m[1], parts[1], code)
			}
			for value := range strings.SplitSeq(parts[3], "|") {
				if parts[2] != "" && !isValue(parts[1], value) {
					t.Errorf("%s: %s is never %q: %s", page, parts[1], value, code)
				}
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(code, -1) {
		for name := range strings.SplitSeq(g[1], ",") {
			n++
			if name = strings.TrimSpace(name); !slices.Contains(all, name) {
				t.Errorf("%s: nothing there has a label %s: %s", page, name, code)
			}
		}
	}
	return n
}

// unseen are metrics that take more than a call to show.
func unseen(name string) bool { return strings.HasPrefix(name, "outrigger_tls_") }

// isValue reports whether a label can have a value, where its values are fixed.
func isValue(label, value string) bool {
	switch label {
	case "code":
		_, err := errmap.Lookup(errmap.Code(value))
		return err == nil || value == telemetry.OK
	case "edge":
		return slices.Contains([]telemetry.Edge{
			telemetry.EdgeMCP, telemetry.EdgeRPC, telemetry.EdgeStdio, telemetry.EdgeConnect, telemetry.EdgeGRPC, telemetry.EdgeGRPCWeb, telemetry.EdgeTyped,
			telemetry.EdgeAdmin, telemetry.EdgeOther,
		}, telemetry.Edge(value))
	case "limit":
		return slices.Contains(limitNames(), value)
	}
	return true
}

// limitNames are the fields of the limits.
func limitNames() []string {
	var out []string
	for name := range limitRows() {
		out = append(out, name)
	}
	return out
}
