// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/client"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestTextsOfAServerAreShownHarmlessly: nothing that a server sends moves the cursor of a terminal, hides a part, or adds a line to a
// table; as JSON it is the same value all the same.
func TestTextsOfAServerAreShownHarmlessly(t *testing.T) {
	t.Parallel()
	const evil = "red\x1b[31m\x07\u202e\u009b31m\u200b\u2028\tb\n<c>&"
	quoted := `"red\u001b[31m\u0007` + "\u202e\u009b31m\u200b\u2028" + `\tb\n<c>&"` // only what has to be is escaped
	results := map[string]string{
		"server/discover": `{}`,
		"tools/list":      `{"tools":[{"name":"t","title":EVIL,"description":EVIL,"inputSchema":{"type":"object","properties":{"x":{"type":"string","default":EVIL}},"required":["x"]}}]}`,
		"tools/call":      `{"content":[],"structuredContent":{"x":EVIL,"n":9007199254740993,"items":[{EVIL:EVIL},{}]}}`,
		"tasks/get":       `{"taskId":"t1","status":"working","statusMessage":EVIL}`,
	}
	base := mcptest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		result := strings.ReplaceAll(results[r.Header.Get("Mcp-Method")], "EVIL", quoted)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":"1","result":%s}`, result)
	}))
	for line, want := range map[string]string{
		"tools":                    "t               -      red?[31m?\\u202e\\u009b31m\\u200b b <c>&\n",
		"tools --json":             `<c>&`, // what it means is compared below
		"tools t":                  "red?[31m?\\u202e\\u009b31m\\u200b\\u2028\tb\n  <c>&\n",
		"search red":               "sidecar call t '{\"x\":\"red\\u001b[31m\\u0007\\u202e\\u009b31m\\u200b\\u2028\\tb\\n<c>&\"}' --server ",
		"search red --json":        `<c>&`,
		"call t":                   `"n": 9007199254740993,`,
		"call t --output lines":    `\u202e\u009b31m\u200b\u2028\tb\n<c>&"}` + "\n{}\n",
		"call t --output table":    "b <c>&",
		"task get t1":              `\n<c>&"`,
		"task get t1 --output raw": "",
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append(strings.Fields(line), "--server", base+"/mcp"), strings.NewReader(""), &stdout, &stderr, nil)
		out := stdout.String()
		if code != exitOK || stderr.Len() > 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, %s\n%q", line, code, stderr.String(), out)
		}
		if strings.HasSuffix(line, "raw") { // as the server sent it
			continue
		}
		if strings.ContainsAny(out, "\x1b\x07\u202e\u009b\u200b\u2028") {
			t.Errorf("%s: what acts on a terminal: %q", line, out)
		}
		var same []struct{ Title, Summary string }
		if strings.HasSuffix(line, "--json") && (json.Unmarshal(stdout.Bytes(), &same) != nil || len(same) != 1 || !strings.HasPrefix(evil, same[0].Title+same[0].Summary)) {
			t.Errorf("%s: %q", line, out)
		}
	}
}

// TestTheProgressLineDoesNotWrap: what is cut off is measured in columns, of which some characters have two.
func TestTheProgressLineDoesNotWrap(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	line := progressLine{out: &out}
	line.show(client.Progress{Done: "1", Message: strings.Repeat("界", narrow)})
	line.show(client.Progress{Done: "2"})
	line.clear()
	for shown := range strings.SplitSeq(out.String(), "\r") {
		if columnsOf(shown) >= narrow {
			t.Errorf("%d columns: %q", columnsOf(shown), shown)
		}
	}
	if first := strings.Split(out.String(), "\r")[1]; columnsOf(first) < narrow-3 || !strings.HasSuffix(first, "…") {
		t.Errorf("the first line is %q", first)
	}
}

// TestTheNullDeviceIsNoTerminal: no one would see a question that goes there.
func TestTheNullDeviceIsNoTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if isTerminal(null) {
		t.Error("it is one")
	}
}
