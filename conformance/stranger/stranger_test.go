// SPDX-License-Identifier: Apache-2.0

// Package stranger shows how many files it takes to add something: its tests make each kind of addition in a copy of the tree,
// build the sidecar there, run it, and count the files that were written by hand. The table in docs/changing.md says the same.
// `make stranger-test` runs them, STRANGER=row one of them.
package stranger

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// row is one kind of addition.
type row struct {
	// name is that of STRANGER, page what its row in docs/changing.md begins with.
	name, page string
	// edits are all that is written by hand, and generate what writes the rest.
	edits    []edit
	generate [][]string
	// shown runs the binary and looks for what was added.
	shown func(t *testing.T, c *tree, binary string)
}

// files are those that the edits touch.
func (r row) files() []string {
	var out []string
	for _, e := range r.edits {
		out = append(out, e.file)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestStranger makes the additions that STRANGER names: one row, or all. Without it, none: each builds a sidecar.
func TestStranger(t *testing.T) { //nolint:paralleltest // two builds at once take as long as one after the other
	asked := os.Getenv("STRANGER")
	if asked == "" {
		t.Skip("make stranger-test runs it")
	}
	names := []string{"all"}
	for _, r := range rows() {
		names = append(names, r.name)
		if asked != "all" && asked != r.name {
			continue
		}
		t.Run(r.name, func(t *testing.T) { //nolint:paralleltest // see above
			c := newTree(t)
			c.apply(t, r.edits)
			for _, command := range r.generate {
				c.run(t, command...)
			}
			r.shown(t, c, c.build(t))
			t.Logf("%d by hand: %s; generated: %s", len(r.files()), strings.Join(r.files(), ", "), strings.Join(c.generated(t), ", "))
		})
	}
	if !slices.Contains(names, asked) {
		t.Errorf("STRANGER=%s is none of %v", asked, names)
	}
}

// pageRow is a row of the table in docs/changing.md: what to add, the number of files, the files.
var pageRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9]+) \| ([^|]+) \|$`)

// TestThePageSaysTheSame compares docs/changing.md with the rows: the number of files, and that each path that the page names is
// touched.
func TestThePageSaysTheSame(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "changing.md"))
	if err != nil {
		t.Fatal(err)
	}
	said := pageRow.FindAllStringSubmatch(string(page), -1)
	if len(said) != len(rows()) {
		t.Errorf("docs/changing.md has numbers in %d rows, want %d", len(said), len(rows()))
	}
	path := regexp.MustCompile("`([a-z0-9_]+(?:/[A-Za-z0-9_.]+)+)`")
	for _, r := range rows() {
		i := slices.IndexFunc(said, func(row []string) bool { return strings.HasPrefix(row[1], r.page) })
		if i < 0 {
			t.Errorf("docs/changing.md has no row %q with a number of files", r.page)
			continue
		}
		if n, err := strconv.Atoi(said[i][2]); err != nil || n != len(r.files()) {
			t.Errorf("%s: the page says %s files, it takes %d: %v", r.page, said[i][2], len(r.files()), r.files())
		}
		for _, named := range path.FindAllStringSubmatch(said[i][3], -1) {
			if !slices.ContainsFunc(r.files(), func(file string) bool { return file == named[1] || strings.HasPrefix(file, named[1]+"/") }) {
				t.Errorf("%s: the page names %s, which is not among %v", r.page, named[1], r.files())
			}
		}
	}
}

// demo starts the sidecar with its example service.
func demo(t *testing.T, binary string, args ...string) *sidecar.Server {
	t.Helper()
	return sidecar.ServeReady(t, binary, append([]string{"--demo"}, args...)...)
}

// post sends a body and returns the status and the answer.
func post(t *testing.T, url, body string, header ...string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Timeout: testkit.Limit(), Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// says fails the test unless a text has all parts.
func says(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%.1500s", what, part, text)
		}
	}
}

// metrics are the lines about a metric on the page of a sidecar.
func metrics(t *testing.T, s *sidecar.Server, name string) string {
	t.Helper()
	status, page := s.Probe(t, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics: %d %s", status, page)
	}
	var lines strings.Builder
	for line := range strings.Lines(page) {
		if strings.Contains(line, name) {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// output is what a command of the sidecar prints, and whether it succeeds.
func output(t *testing.T, binary string, args ...string) (text string, ok bool) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
	return string(out), err == nil
}

// document is a page of the tree after the change.
func document(t *testing.T, c *tree, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// jsonrpc is a request.
func jsonrpc(method string, params map[string]any) string {
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "1", "method": method, "params": params})
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(text)
}
