// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// What is no message is refused in a sentence, however long the value is that is
// wrong in it; the rest of JSON is as Connect has it.
func TestJSONThatIsNoMessageIsRefusedInASentence(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{})
	mux := http.NewServeMux()
	connectapi.New(rig.App().Bridge(), rig.Bridge, connectapi.Options{}).Mount(mux)
	url := mcptest.Serve(t, mux)
	client := mcptest.Client(t, 1)
	call := func(contentType, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/outrigger.v1.ToolService/CallTool", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(raw)
	}
	for name, value := range map[string]string{
		"digits":               strings.Repeat("7", 100_000),
		"letters":              strings.Repeat("é", 50_000),
		"letters, one further": "x" + strings.Repeat("é", 50_000),
		"nothing":              "",
		"an exponent":          "1e999",
	} {
		for _, contentType := range []string{"application/json", "application/json; charset=utf-8", "application/json; charset=utf8"} {
			status, body := call(contentType, `{"tool_name":"lab.echo","arguments":{"signed":`+value+`}}`)
			if status != http.StatusBadRequest || len(body) > 2048 || !strings.Contains(body, `"google.rpc.ErrorInfo"`) || speaksOfLibraries(unpacked(body)) || strings.Contains(body, "\ufffd") {
				t.Errorf("%s as %s: %d, %d bytes: %.300s", name, contentType, status, len(body), body)
			}
		}
	}
	if status, body := call("application/json", ""); status != http.StatusBadRequest || !strings.Contains(unpacked(body), "The body is empty") {
		t.Errorf("nothing at all: %d %s", status, body)
	}
}
