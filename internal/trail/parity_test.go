// SPDX-License-Identifier: Apache-2.0

package trail_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

var updateParity = flag.Bool("update-parity", false, "rewrite testdata/records")

// conversation is what both transports get: every kind of envelope, and every
// way in which one may fail that both can have.
func conversation() []string {
	return []string{
		`{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`,
		`{"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"n","unsigned":18446744073709551615}}}`,
		`{"jsonrpc":"2.0","id":"3","method":"tools/call","params":{"tool_name":"lab.echo","arguments":{"nonce":"m"},"x":1}}`,
		`{"jsonrpc":"2.0","id":"4","method":"tools/call","params":{"name":"lab.ecko"}}`,
		`{"jsonrpc":"2.0","id":"5","method":"tools/call","params":{"name":"lab.echo","arguments":{"signed":5.5}}}`,
		`{"jsonrpc":"2.0","id":"6","method":"tools/call","params":{"name":"fleet.get_vehicle","arguments":{"vehicleId":"999"}}}`,
		`{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"fleet.cancel_order","arguments":{"orderId":"9007199254740999"}}}`,
		`{"jsonrpc":"2.0","id":8,"method":"ping","params":{}}`,
		`{"jsonrpc":"2.0","id":"9","method":"nothing","params":{}}`,
		`{"jsonrpc":"2.0","method":"fleet/moved","params":{"secret":"s"}}`,
		`{"jsonrpc":"2.0","id":"11","result":{}}`,
		`{"jsonrpc":"2.0","id":"12"`,
		`{"jsonrpc":"2.0","id":"13","method":"ping","params":{"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}`,
	}
}

// TestHTTPAndStdioLeaveTheSameRecords compares the records of the same input
// over both transports field by field, and with the golden files; only
// transport, route and caller may differ.
func TestHTTPAndStdioLeaveTheSameRecords(t *testing.T) {
	t.Parallel()
	overHTTP := recordHTTP(t, conversation())
	overStdio := recordStdio(t, conversation())
	golden(t, "http.events.jsonl", overHTTP)
	golden(t, "stdio.events.jsonl", overStdio)

	a, b := lines(t, overHTTP), lines(t, overStdio)
	if len(a) != len(conversation()) || len(b) != len(a) {
		t.Fatalf("%d lines over HTTP and %d over stdio for %d envelopes", len(a), len(b), len(conversation()))
	}
	for i := range a {
		for _, differs := range []string{"transport", "route", "caller"} {
			if a[i][differs] == b[i][differs] {
				t.Errorf("line %d: %s is %v on both", i+1, differs, a[i][differs])
			}
			delete(a[i], differs)
			delete(b[i], differs)
		}
		if diff := cmp.Diff(a[i], b[i]); diff != "" {
			t.Errorf("line %d (-http +stdio):\n%s", i+1, diff)
		}
	}
}

// TestDeterministicRunsAreByteIdentical runs fifty concurrent calls twice.
func TestDeterministicRunsAreByteIdentical(t *testing.T) {
	t.Parallel()
	var batch []string
	for i := range 50 {
		batch = append(batch, fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"0.0%02ds"}}}`, i, 50-i))
	}
	input := []string{"[" + strings.Join(batch, ",") + "]"}
	first, second := recordHTTP(t, input), recordHTTP(t, input)
	if !bytes.Equal(first, second) {
		t.Errorf("two runs of the same input differ:\n%s", cmp.Diff(string(first), string(second)))
	}
	if got := bytes.Count(first, []byte("\n")); got != 50 {
		t.Errorf("%d lines, want 50", got)
	}
}

func recordHTTP(t *testing.T, messages []string) []byte {
	t.Helper()
	rig, dir := recordingRig(t)
	url := mcptest.Serve(t, rpchttp.New(rig.Bridge, rpchttp.Options{}))
	client := mcptest.Client(t, 1)
	for _, m := range messages {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+rpchttp.Path, strings.NewReader(m))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	return written(t, rig, dir)
}

func recordStdio(t *testing.T, messages []string) []byte {
	t.Helper()
	rig, dir := recordingRig(t)
	in := strings.NewReader(strings.Join(messages, "\n") + "\n")
	if err := stdio.Serve(t.Context(), rig.Bridge, in, &bytes.Buffer{}, stdio.Options{}); err != nil {
		t.Fatal(err)
	}
	return written(t, rig, dir)
}

// recordingRig is a sidecar, and the folder of its records. Tests put edges of their own
// in front of it: those of a deterministic sidecar take UUIDs alone as ids.
func recordingRig(t *testing.T) (*mcptest.Rig, string) {
	t.Helper()
	dir := t.TempDir()
	return mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Record.Dir, c.Deterministic = proto.String(dir), true
	}}), dir
}

// written ends the run and returns its lines.
func written(t *testing.T, rig *mcptest.Rig, dir string) []byte {
	t.Helper()
	rig.End()
	files, err := filepath.Glob(filepath.Join(dir, "mcp_server", "envelope_validation", "2*", "events.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the records are in %v, %v; want one file", files, err)
	}
	out, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("..", "..", "testdata", "records", name)
	if *updateParity {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func lines(t *testing.T, text []byte) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range bytes.Lines(text) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, fields)
	}
	return out
}
