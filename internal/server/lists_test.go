// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// asked sends a message whose response stays as it comes.
func asked(t *testing.T, url string, s sent, accept string) (http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+s.path, strings.NewReader(s.body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, s.header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if accept != "" {
		req.Header.Set("Accept-Encoding", accept)
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v: %.300s", res.StatusCode, err, body)
	}
	return res.Header, body
}

// decoded is a body without its encoding.
func decoded(t *testing.T, encoding string, body []byte) []byte {
	t.Helper()
	switch encoding {
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body, err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	case "zstd":
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if body, err = r.DecodeAll(body, nil); err != nil {
			t.Fatal(err)
		}
	}
	return body
}

// lists are requests for the tools, by era.
func lists() map[string]sent {
	return map[string]sent{
		"modern":    newest("tools/list", "", ""),
		"canonical": {"/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`, nil},
	}
}

func TestListsAreCompressed(t *testing.T) {
	t.Parallel()
	url := mcptest.Start(t, mcptest.Options{}).Serve(t)
	for name, list := range lists() {
		header, plain := asked(t, url, list, "")
		if header.Get("Content-Encoding") != "" || header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %v", name, header)
		}
		for _, encoding := range []string{"gzip", "zstd"} {
			header, body := asked(t, url, list, encoding)
			if got := header.Get("Content-Encoding"); got != encoding {
				t.Fatalf("%s: encoded as %q", name, got)
			}
			if len(body) > len(plain)/3 {
				t.Errorf("%s as %s: %d bytes of %d", name, encoding, len(body), len(plain))
			}
			if !bytes.Equal(decoded(t, encoding, body), plain) {
				t.Errorf("%s as %s is another list", name, encoding)
			}
		}
	}
	small := sent{"/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"n"}}}`, nil}
	if header, _ := asked(t, url, small, "gzip, zstd"); header.Get("Content-Encoding") != "" || header.Get("Vary") != "" || header.Get("Content-Length") == "" {
		t.Errorf("a small response: %v", header)
	}
	off := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) { c.Listeners.CompressAboveBytes = proto.Int32(0) }}).Serve(t)
	if header, _ := asked(t, off, lists()["canonical"], "gzip"); header.Get("Content-Encoding") != "" {
		t.Errorf("compression is off: %v", header)
	}
}

// listedTools are the tools of a response, by canonical name.
func listedTools(t *testing.T, body []byte) map[string]map[string]json.RawMessage {
	t.Helper()
	var reply struct {
		Result struct{ Tools []map[string]json.RawMessage }
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]json.RawMessage{}
	for _, entry := range reply.Result.Tools {
		name := strings.Trim(string(entry["name"]), `"`)
		out[strings.Replace(name, "_", ".", 1)] = entry
	}
	return out
}

// TestEveryListHasTheOutputsThatItIsTold: tools/get and the checks of results have them all.
func TestEveryListHasTheOutputsThatItIsTold(t *testing.T) {
	t.Parallel()
	for mode, isListed := range map[string]bool{"all": true, "bounded": true, "none": false} {
		url := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) { c.Catalog.OutputSchemas = proto.String(mode) }}).Serve(t)
		for _, name := range []string{"modern", "canonical"} {
			_, body := asked(t, url, lists()[name], "")
			entry := listedTools(t, body)["lab.echo"]
			if entry == nil {
				t.Fatalf("%s: no lab.echo in %.300s", name, body)
			}
			if has := len(entry["outputSchema"]) > 0 && string(entry["outputSchema"]) != "null"; has != isListed {
				t.Errorf("%s, %s: the output schema is %.80s", mode, name, entry["outputSchema"])
			}
			if isPartial := bytes.Contains(entry["_meta"], []byte(`"partial":true`)); isPartial == (isListed || name == "canonical") {
				t.Errorf("%s, %s: _meta is %s", mode, name, entry["_meta"])
			}
		}
		_, got := asked(t, url, sent{"/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"name":"lab.echo"}}`, nil}, "")
		if !bytes.Contains(got, []byte(`"outputSchema":{"type":"object"`)) {
			t.Errorf("%s: tools/get is %.300s", mode, got)
		}
	}
}

// TestAStartNamesWhatAClientDoesNotTake: a recursive output schema, which only an operator's setting lists.
func TestAStartNamesWhatAClientDoesNotTake(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]int{"bounded": 0, "all": 1} {
		core, logged := observer.New(zap.WarnLevel)
		rig := mcptest.Start(t, mcptest.Options{
			Log:       zap.New(core),
			Configure: func(c *configv1.Config) { c.Catalog.OutputSchemas = proto.String(mode) },
		})
		rig.End()
		warned := logged.FilterMessageSnippet("sidecar lint --client claude-code").All()
		if len(warned) != want {
			t.Fatalf("%s: %d warnings: %v", mode, len(warned), logged.All())
		}
		if want > 0 && !strings.Contains(fmt.Sprint(warned[0].ContextMap()["tool_names"]), "fleet.get_map") {
			t.Errorf("%s: %v", mode, warned[0].ContextMap())
		}
	}
}

// TestAListOverItsBudgetIsToldOnce: in the log, with the dearest tools, and in metrics.
func TestAListOverItsBudgetIsToldOnce(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.WarnLevel)
	rig := mcptest.Start(t, mcptest.Options{
		Log:       zap.New(core),
		Configure: func(c *configv1.Config) { c.Catalog.ListBudgetTokens = proto.Int32(1000) },
	})
	url, operators := rig.Serve(t), rig.Operators(t)
	if page := metricsPage(t, operators); !strings.Contains(page, "outrigger_tool_list_bytes 0\n") || !strings.Contains(page, "outrigger_tool_list_budget_bytes 4000\n") {
		t.Errorf("before the first list:\n%s", regexp.MustCompile(`(?m)^outrigger_tool_list.*$`).FindAllString(page, -1))
	}
	for range 2 {
		_, body := asked(t, url, lists()["modern"], "")
		if len(listedTools(t, body)) == 0 {
			t.Fatalf("%.300s", body)
		}
	}
	warned := logged.FilterMessageSnippet("list of tools exceeds its budget").All()
	if len(warned) != 1 {
		t.Fatalf("%d warnings: %v", len(warned), logged.All())
	}
	fields := warned[0].ContextMap()
	dearest, _ := fields["dearest_tools"].([]any)
	if len(dearest) != 10 || !strings.Contains(fmt.Sprint(dearest[0]), " bytes)") || fields["budget_bytes"] != int64(4000) {
		t.Errorf("%v", fields)
	}
	page := metricsPage(t, operators)
	if n := strings.Count(page, "\noutrigger_tool_list_dearest_bytes{"); n != 10 || !strings.Contains(page, fmt.Sprintf("outrigger_tool_list_bytes %d\n", fields["list_bytes"])) {
		t.Errorf("%d tools, and %v bytes in the log:\n%s", n, fields["list_bytes"], regexp.MustCompile(`(?m)^outrigger_tool_list.*$`).FindAllString(page, -1))
	}
}
