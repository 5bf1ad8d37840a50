// SPDX-License-Identifier: Apache-2.0

package trail_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// TestContractOfRecords has the sentences about what a run leaves.
func TestContractOfRecords(t *testing.T) {
	t.Parallel()
	overHTTP, overStdio := recordHTTP(t, conversation()), recordStdio(t, conversation())

	t.Run("there is one line for each envelope over HTTP and stdio", func(t *testing.T) {
		t.Parallel()
		for transport, text := range map[string][]byte{"http": overHTTP, "stdio": overStdio} {
			if got := bytes.Count(text, []byte("\n")); got != len(conversation()) {
				t.Errorf("%s: %d lines for %d envelopes", transport, got, len(conversation()))
			}
		}
	})

	t.Run("every line has all required fields, null where unknown", func(t *testing.T) {
		t.Parallel()
		for _, line := range append(lines(t, overHTTP), lines(t, overStdio)...) {
			for _, field := range []string{
				"timestamp", "requestId", "traceId", "transport", "route", "method", "status", "durationMs", "error", "tool", "caller", "metadata",
			} {
				if _, ok := line[field]; !ok {
					t.Errorf("no %s in %v", field, line)
				}
			}
		}
	})

	t.Run("metadata has schemaVersion and deterministic", func(t *testing.T) {
		t.Parallel()
		for _, line := range lines(t, overHTTP) {
			metadata, _ := line["metadata"].(map[string]any)
			if version, _ := metadata["schemaVersion"].(string); version == "" || metadata["deterministic"] != true {
				t.Errorf("metadata %v", metadata)
			}
		}
	})

	t.Run("an error is the canonical one with HTTP status and JSON-RPC code, and null otherwise", func(t *testing.T) {
		t.Parallel()
		for _, line := range lines(t, overHTTP) {
			failure, isError := line["error"].(map[string]any)
			if isError != (line["status"] == "error") || isError && (failure["code"] == nil || failure["httpStatus"] == nil || failure["jsonrpcCode"] == nil) {
				t.Errorf("%v", line)
			}
		}
	})

	t.Run("every invocation is audited, whatever becomes of it", func(t *testing.T) {
		t.Parallel()
		rig, dir := recordingRig(t)
		mux := http.NewServeMux()
		mux.Handle(rpchttp.Path, rpchttp.New(rig.Bridge, rpchttp.Options{}))
		mux.Handle(mcphttp.Path, mcphttp.New(rig.Bridge, mcphttp.Options{}))
		url := mcptest.Serve(t, mux)
		client := mcptest.Client(t, 1)
		calls := []struct{ path, body string }{
			{"/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{}}}`},
			{"/rpc", `{"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"tool_name":"lab.echo","arguments":{}}}`},
			{"/rpc", `{"jsonrpc":"2.0","id":"3","method":"tools/call","params":{"name":"fleet.cancel_order","arguments":{"orderId":"1"}}}`},
			{"/rpc", `{"jsonrpc":"2.0","id":"4","method":"tools/call","params":{"name":"no.such"}}`},
			{"/rpc", `{"jsonrpc":"2.0","id":"5","method":"tools/call","params":{"name":"lab.echo","arguments":7}}`},
			{"/mcp", `{"jsonrpc":"2.0","id":"6","method":"tools/call","params":{"name":"lab_echo","arguments":{}}}`},
			{"/rpc", `[{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"lab.echo"}},{"jsonrpc":"2.0","id":"8","method":"tools/call","params":{"name":"lab.fail"}}]`},
		}
		for _, c := range calls {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
		var got []string
		for _, line := range lines(t, written(t, rig, dir)) {
			id, _ := line["requestId"].(string)
			if line["method"] != "tools/call" {
				t.Errorf("%v", line)
			}
			got = append(got, id)
		}
		if want := []string{"1", "2", "3", "4", "5", "6", "7", "8"}; !slices.Equal(got, want) {
			t.Errorf("recorded are %v", got)
		}
	})

	t.Run("a deterministic line holds no measured time", func(t *testing.T) {
		t.Parallel()
		text := recordHTTP(t, []string{`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"0.02s"}}}`})
		fixed := lines(t, recordHTTP(t, []string{`{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`}))[0]
		slept := lines(t, text)[0]
		if slept["durationMs"] != fixed["durationMs"] || slept["timestamp"] != fixed["timestamp"] {
			t.Errorf("a call that sleeps has %v at %v, a ping %v at %v", slept["durationMs"], slept["timestamp"], fixed["durationMs"], fixed["timestamp"])
		}
	})

	t.Run("times are ISO 8601 in UTC", func(t *testing.T) {
		t.Parallel()
		for _, line := range lines(t, overHTTP) {
			stamp, _ := line["timestamp"].(string)
			if _, err := time.Parse("2006-01-02T15:04:05.000000Z", stamp); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestContractOfRotation has the sentence about how much is kept.
func TestContractOfRotation(t *testing.T) {
	t.Parallel()
	run, err := trail.OpenRecord(trail.RecordOptions{Dir: t.TempDir(), MaxFileBytes: 2000, MaxFiles: 3})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		run.Begin(trail.Arrival{Transport: "http", Method: "ping"}).End(trail.Outcome{OK: true, HTTPStatus: 200})
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(run.Folder())
	if err != nil {
		t.Fatal(err)
	}

	t.Run("files are rotated by size", func(t *testing.T) {
		t.Parallel()
		for _, f := range files {
			info, err := os.Stat(filepath.Join(run.Folder(), f.Name()))
			if err != nil || info.Size() > 2000 {
				t.Errorf("%s has %d bytes, %v", f.Name(), info.Size(), err)
			}
		}
	})

	t.Run("files are kept up to a count", func(t *testing.T) {
		t.Parallel()
		if len(files) != 3 {
			t.Errorf("%d files: %v", len(files), files)
		}
	})
}
