// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// TestBadEnvelopesInASessionWithBatches sends every bad envelope to a session of
// the revision that has batches: alone it gets what it gets in every revision; in
// an array, only what is no JSON costs the good message beside it its answer.
func TestBadEnvelopesInASessionWithBatches(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	session := openOldest(t, server)
	post := func(body string) answer {
		req := request(t, http.MethodPost, server.URL("/mcp"), strings.NewReader(body))
		req.Header.Set("Mcp-Session-Id", session)
		return send(t, req)
	}
	const good = `{"jsonrpc":"2.0","id":"good","method":"ping"}`
	for _, row := range badEnvelopes() {
		if row.canonicalOnly {
			continue
		}
		alone := post(row.raw)
		if code := errorCode(reply(t, alone.body)); alone.status != http.StatusBadRequest || code != row.want {
			t.Errorf("%s: %d %s, want %s: %.200s", row.name, alone.status, code, row.want, alone.body)
		}
		batch := post("[" + row.raw + "," + good + "]")
		if row.want == parseError {
			if code := errorCode(reply(t, batch.body)); batch.status != http.StatusBadRequest || code != parseError {
				t.Errorf("%s in a batch: %d %s: %.200s", row.name, batch.status, code, batch.body)
			}
			continue
		}
		got := replies(t, batch.body)
		if row.unasked {
			// There is no reply to it, because nothing waits for one.
			if batch.status != http.StatusOK || len(got) != 1 || got[0].Error != nil || string(got[0].ID) != `"good"` {
				t.Errorf("%s in a batch: %d %.300s", row.name, batch.status, batch.body)
			}
			continue
		}
		if batch.status != http.StatusOK || len(got) != 2 || errorCode(got[0]) != row.want || got[1].Error != nil || string(got[1].ID) != `"good"` {
			t.Errorf("%s in a batch: %d %.300s", row.name, batch.status, batch.body)
		}
	}
	for _, id := range []string{"9007199254740993", "18446744073709551615", `"a \"quoted\" id, 100 \u20ac"`, "7", `"7"`} {
		one := strings.Replace(good, `"good"`, id, 1)
		if got := reply(t, post(one).body); string(got.ID) != id || got.Error != nil {
			t.Errorf("id %s: %+v", id, got)
		}
		if got := replies(t, post("["+one+"]").body); len(got) != 1 || string(got[0].ID) != id || got[0].Error != nil {
			t.Errorf("id %s in a batch: %+v", id, got)
		}
	}
	isQuiet(t, server.AdminURL("/metrics"))
}

// TestUnknownVersionsAndMethods asks for what does not exist, or leaves out what a
// revision wants in every message, over every edge.
func TestUnknownVersionsAndMethods(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	session := openOldest(t, server)
	const discover = `{"jsonrpc":"2.0","id":"u","method":"server/discover","params":{%s}}`
	foreign := strings.ReplaceAll(caller.ModernMeta, caller.ModernVersion, "2099-01-01")
	half := strings.Replace(caller.ModernMeta, `,"io.modelcontextprotocol/clientCapabilities":{}`, "", 1)
	unknown := func(meta string) string {
		return `{"jsonrpc":"2.0","id":"u","method":"tools/lisp","params":{` + meta + `}}`
	}
	modern := func(method string) map[string]string {
		return map[string]string{"Mcp-Protocol-Version": caller.ModernVersion, "Mcp-Method": method}
	}
	for _, row := range []struct {
		name, path, body string
		header           map[string]string
		status           int
		number           int64
		// code is the canonical one; "" where the revision defines the data itself.
		code, says string
	}{
		{"modern, unknown version", "/mcp", fmt.Sprintf(discover, foreign), map[string]string{"Mcp-Protocol-Version": "2099-01-01", "Mcp-Method": "server/discover"}, 400, -32022, "", `"supported":[`},
		{"modern, _meta missing", "/mcp", fmt.Sprintf(discover, ""), modern("server/discover"), 400, -32602, badParams, "_meta"},
		{"modern, a member of _meta missing", "/mcp", fmt.Sprintf(discover, half), modern("server/discover"), 400, -32602, badParams, "clientCapabilities"},
		{"modern, unknown method", "/mcp", unknown(caller.ModernMeta), modern("tools/lisp"), 404, -32601, "METHOD_NOT_FOUND", ""},
		{"legacy, unknown version", "/mcp", `{"jsonrpc":"2.0","id":"u","method":"ping"}`, map[string]string{"Mcp-Protocol-Version": "2023-01-01"}, 400, -32600, "UNSUPPORTED_PROTOCOL_VERSION", ""},
		{"legacy, unknown method", "/mcp", unknown(""), map[string]string{"Mcp-Protocol-Version": caller.LegacyVersion}, 200, -32601, "METHOD_NOT_FOUND", ""},
		{"2025-03-26, unknown version", "/mcp", `{"jsonrpc":"2.0","id":"u","method":"ping"}`, map[string]string{"Mcp-Session-Id": session, "Mcp-Protocol-Version": "2023-01-01"}, 400, -32600, "UNSUPPORTED_PROTOCOL_VERSION", ""},
		{"2025-03-26, unknown method", "/mcp", unknown(""), map[string]string{"Mcp-Session-Id": session}, 200, -32601, "METHOD_NOT_FOUND", ""},
		{"canonical, unknown method", "/rpc", unknown(""), nil, 404, -32601, "METHOD_NOT_FOUND", ""},
	} {
		req := request(t, http.MethodPost, server.URL(row.path), strings.NewReader(row.body))
		for name, value := range row.header {
			req.Header.Set(name, value)
		}
		got := send(t, req)
		r := reply(t, got.body)
		if got.status != row.status || r.Error == nil || r.Error.Code != row.number || errorCode(r) != row.code || !strings.Contains(string(got.body), row.says) {
			t.Errorf("%s: %d %.300s, want %d %d %s", row.name, got.status, got.body, row.status, row.number, row.code)
		}
	}
	pipe := sidecar.Pipe(t, built.binary, "--demo")
	for _, row := range []struct {
		name, line string
		number     int64
	}{
		{"canonical, unknown method", unknown(""), -32601},
		{"modern, unknown method", unknown(caller.ModernMeta), -32601},
		{"modern, unknown version", fmt.Sprintf(discover, foreign), -32022},
		{"modern, a member of _meta missing", fmt.Sprintf(discover, half), -32602},
	} {
		pipe.MustSend(t, row.line)
		if got := reply(t, []byte(pipe.Next(t))); got.Error == nil || got.Error.Code != row.number || string(got.ID) != `"u"` {
			t.Errorf("stdio, %s: %+v, want %d", row.name, got, row.number)
		}
	}
	for _, p := range rpcProtocols() {
		for _, encoding := range []caller.Encoding{caller.Proto, caller.JSON} {
			for _, procedure := range []string{"/outrigger.v1.ToolService/Nothing", "/outrigger.demo.v1.Lab/Nothing", "/unknown.v1.Unknown/Nothing"} {
				raw := caller.NewRaw(server.Addr(), procedure, encoding, p.h2, p.options...)
				if got := raw.Call(t.Context(), []byte("{}")); caller.RPCCode(got) != "unimplemented" {
					t.Errorf("%s, %s, %s: %v; %v, want unimplemented", p.name, encoding, procedure, got.Err, got.Fault)
				}
				raw.Close()
			}
		}
	}
}

// TestAHiddenToolIsAnUnknownOneAtEveryEntryPoint hides a tool: its callers hear
// what they hear of a tool that does not exist.
func TestAHiddenToolIsAnUnknownOneAtEveryEntryPoint(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sidecar.yaml")
	if err := os.WriteFile(file, []byte("tools:\n  - method: outrigger.demo.v1.Lab/Echo\n    tool: {hidden: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--demo", "--config", file}
	server := serve(t, args...)
	for _, d := range append(entryPoints(t, server, args...), typedWireEntryPoints(t, server)...) {
		// Names of one length and one nearest neighbour, so that answers can be compared.
		hidden := d.ask(t, ask{tool: toolEcho, procedure: procEcho, args: `{}`})
		unknown := d.ask(t, ask{tool: "lab.ecxo", procedure: "/outrigger.demo.v1.Lab/Ecxo", args: `{}`})
		if hidden.Fault == nil || unknown.Fault == nil {
			t.Errorf("%s %s: %v; %v and %v; %v", d.edge, d.name, hidden.Err, hidden.Fault, unknown.Err, unknown.Fault)
			continue
		}
		want := strings.NewReplacer("lab.ecxo", toolEcho, "lab_ecxo", "lab_echo", "Ecxo", "Echo").Replace(unknown.Fault.String())
		if got := hidden.Fault.String(); got != want || hidden.Fault.Code != noTool && !strings.HasPrefix(string(d.edge), "typed") {
			t.Errorf("%s %s: a hidden tool gets\n%s\nan unknown one\n%s", d.edge, d.name, got, want)
		}
	}
}
