// SPDX-License-Identifier: Apache-2.0

//go:build !race

package blackbox_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

var updateAllocations = flag.Bool("update-allocations", false, "record the allocations of calls")

// allocations is what one call costs.
type allocations struct {
	Count float64
	Bytes float64
}

// sink is a response writer that allocates nothing for each response.
type sink struct {
	header http.Header
	body   bytes.Buffer
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return s.body.Write(p) }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Flush()                      {}

// posts is a call over an edge of the main listener.
func posts(t testing.TB, h http.Handler, path string, major int, header http.Header, body []byte, want string) func() {
	t.Helper()
	reader := bytes.NewReader(nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1"+path, io.NopCloser(reader))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr, r.ContentLength, r.Header, r.ProtoMajor = "127.0.0.1:1234", int64(len(body)), header, major
	w := &sink{header: http.Header{}}
	return func() {
		reader.Reset(body)
		w.body.Reset()
		clear(w.header)
		h.ServeHTTP(w, r)
		if !bytes.Contains(w.body.Bytes(), []byte(want)) {
			t.Fatalf("%s: %d %s %.500q", path, w.status, w.header, w.body.Bytes())
		}
	}
}

// speaks is a call over standard input and output.
func speaks(t *testing.T, r *mcptest.Rig, line, want string) func() {
	t.Helper()
	theirs, toUs := io.Pipe()
	fromUs, ours := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- r.Stdio(t.Context(), theirs, ours) }()
	t.Cleanup(func() {
		_ = toUs.Close()
		go func() { _, _ = io.Copy(io.Discard, fromUs) }()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = ours.Close()
	})
	answer := make([]byte, 1<<20)
	request := []byte(line + "\n")
	return func() {
		if _, err := toUs.Write(request); err != nil {
			t.Fatal(err)
		}
		n := 0
		for n == 0 || answer[n-1] != '\n' {
			m, err := fromUs.Read(answer[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += m
		}
		if !bytes.Contains(answer[:n], []byte(want)) {
			t.Fatalf("%.300s", answer[:n])
		}
	}
}

// TestAllocationsOfACall holds what a warm call costs on every edge, small and of 4 KB, from the HTTP request or the line to the
// answer, with all that a server has around it by default. The backend is a function. The number of allocations is exact. A
// change of either number is recorded with its reason: go test ./bridge/blackbox -run TestAllocationsOfACall -update-allocations.
//
//nolint:paralleltest // other tests allocate too
func TestAllocationsOfACall(t *testing.T) {
	r := fake(t, mcptest.Echo, nil)
	h := r.Handler(t)
	sizes := map[string]*demov1.EchoRequest{
		"small":  {Nonce: "n", Signed: -1},
		"medium": {Nonce: "n", Signed: -1, Payload: bytes.Repeat([]byte{0xa5, 3}, 1500)},
	}
	got := map[string]allocations{}
	for _, size := range slices.Sorted(maps.Keys(sizes)) {
		message := sizes[size]
		wire, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		arguments := fmt.Sprintf(`{"nonce":"n","signed":"-1","payload":%q}`, base64.StdEncoding.EncodeToString(message.GetPayload()))
		if size == "small" {
			arguments = `{"nonce":"n","signed":"-1"}`
		}
		rpc := func(name, more string) []byte {
			return []byte(`{"jsonrpc":"2.0","id":"one","method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + more + `}}`)
		}
		json := http.Header{"Content-Type": {"application/json"}, "Connect-Protocol-Version": {"1"}}
		const echo, callTool = "/outrigger.demo.v1.Lab/Echo", "/outrigger.v1.ToolService/CallTool"
		frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(wire))), wire...)
		calls := map[string]func(){
			"mcp": posts(t, h, "/mcp", 1, http.Header{
				"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
				"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"lab_echo"},
			}, rpc("lab_echo", `,`+modernMeta), `"structuredContent"`),
			"rpc":           posts(t, h, "/rpc", 1, http.Header{"Content-Type": {"application/json"}}, rpc("lab.echo", ""), `"result":`),
			"stdio":         speaks(t, r, string(rpc("lab_echo", `,`+modernMeta)), `"structuredContent"`),
			"connect":       posts(t, h, callTool, 1, json, []byte(`{"tool_name":"lab.echo","arguments":`+arguments+`}`), `"success"`),
			"typed JSON":    posts(t, h, echo, 1, json, []byte(arguments), `"nonce"`),
			"typed Connect": posts(t, h, echo, 1, http.Header{"Content-Type": {"application/proto"}, "Connect-Protocol-Version": {"1"}}, wire, string(wire)),
			"typed gRPC":    posts(t, h, echo, 2, http.Header{"Content-Type": {"application/grpc+proto"}, "Te": {"trailers"}}, frame, string(wire)),
		}
		for _, edge := range slices.Sorted(maps.Keys(calls)) {
			got[edge+", "+size] = measured(calls[edge])
		}
	}
	path := filepath.Join("testdata", "allocations.json")
	if *updateAllocations {
		text, err := json.MarshalIndent(got, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]allocations{}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for name, g := range got {
		const noise = 0.05 // of the bytes: what a pool lends is larger or smaller
		if w := want[name]; g.Count != w.Count || g.Bytes > w.Bytes*(1+noise) || g.Bytes < w.Bytes*(1-noise) {
			t.Errorf("%s: %v allocations and %v bytes a call, on record %v and %v", name, g.Count, g.Bytes, w.Count, w.Bytes)
		}
	}
	if len(want) != len(got) {
		t.Errorf("%d rows on record, %d measured", len(want), len(got))
	}
}

// measured is the cost of one more call: the least of several rounds, because what a goroutine beside it allocates, or a table that
// grows once, is no cost of a call. The collector, which would empty pools, is off meanwhile.
func measured(call func()) allocations {
	const rounds, runs = 3, 200
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 20 {
		call()
	}
	least := allocations{Count: math.Inf(1), Bytes: math.Inf(1)}
	for range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			call()
		}
		runtime.ReadMemStats(&after)
		least.Count = min(least.Count, float64((after.Mallocs-before.Mallocs)/runs))
		least.Bytes = min(least.Bytes, float64((after.TotalAlloc-before.TotalAlloc)/runs))
	}
	return least
}
