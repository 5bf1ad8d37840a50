// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

var (
	node        = flag.String("node", "", "the node binary")
	modules     = flag.String("modules", "", "folder with the installed backends")
	python      = flag.String("python", "", "a Python that has grpcio and protobuf")
	descriptors = flag.String("descriptors", "", "descriptor set of foreign.proto")
)

var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	if *node == "" {
		os.Exit(0) // make foreign-test says where everything is
	}
	os.Exit(sidecar.Main(m, func(_ context.Context, built, _ string) error {
		binary = built
		return nil
	}))
}

// backend is how a backend is started, and how it is reached.
type backend struct {
	name, scheme string
	command      []string
	isMutual     bool
	lacksHTTP2   bool
	reflects     bool // its tools come from its reflection
}

func backends() []backend {
	script := func(name string, args ...string) []string {
		return append([]string{*node, *modules + "/" + name}, args...)
	}
	return []backend{
		{name: "grpc-js", scheme: "grpc", command: script("grpc.mjs", *modules+"/foreign.proto")},
		{name: "grpc-js, probed", scheme: "http", command: script("grpc.mjs", *modules+"/foreign.proto")},
		{name: "grpc-js, reflection", scheme: "grpc", command: script("grpc.mjs", *modules+"/foreign.proto"), reflects: true},
		{name: "grpc-js, mutual TLS", scheme: "grpcs", command: script("grpc.mjs", *modules+"/foreign.proto"), isMutual: true},
		{name: "connect-es, HTTP/1.1", scheme: "connect+http", command: script("connect.mjs", *descriptors, "http1"), lacksHTTP2: true},
		{name: "connect-es, HTTP/1.1, probed", scheme: "http", command: script("connect.mjs", *descriptors, "http1"), lacksHTTP2: true},
		{name: "connect-es, h2c", scheme: "connect+http", command: script("connect.mjs", *descriptors, "h2c")},
		{name: "connect-es, h2c, probed", scheme: "http", command: script("connect.mjs", *descriptors, "h2c")},
		{name: "connect-es, mutual TLS", scheme: "connect+https", command: script("connect.mjs", *descriptors, "https"), isMutual: true},
		{name: "C-core", scheme: "grpc", command: []string{*python, *modules + "/ccore.py", *descriptors}},
		{name: "C-core, mutual TLS", scheme: "grpcs", command: []string{*python, *modules + "/ccore.py", *descriptors}, isMutual: true},
	}
}

// TestForeignBackends calls every kind of RPC of every backend, and compares what comes back.
func TestForeignBackends(t *testing.T) {
	t.Parallel()
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--descriptors", *descriptors}
			if b.reflects {
				args = nil
			}
			command := b.command
			if b.isMutual {
				ca := tlstest.NewAuthority(t)
				server, client := ca.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}}), ca.Issue(t, tlstest.Leaf{Hosts: []string{"client"}})
				command = append(slices.Clip(command), ca.File, server.CertFile, server.KeyFile)
				args = append(args, "--backend-ca", ca.File)
				args = append(args, "--backend", b.scheme+"://127.0.0.1:"+start(t, command))
				refused(t, args)
				args = append(args, "--backend-cert", client.CertFile, "--backend-key", client.KeyFile)
			} else {
				args = append(args, "--backend", b.scheme+"://127.0.0.1:"+start(t, command))
			}
			s := sidecar.Serve(t, binary, args...)
			awaitReady(t, s)
			for _, tc := range []struct{ name, tool, arguments, want string }{
				{"unary", "kinds.echo", `{"text":"häw"}`, `{"text":"häw","saidOften":{}}`},
				{"a map and an import", "kinds.echo", `{"text":"a","saidOften":{"b":2},"saidAt":"2026-01-02T03:04:05Z"}`, `{"text":"a","saidOften":{"b":2},"saidAt":"2026-01-02T03:04:05Z"}`},
				{"an error", "kinds.echo", `{"text":"fail"}`, "not_found: no such word"},
				{"server stream", "kinds.count", `{"value":3}`, `{"items":[{"value":1},{"value":2},{"value":3}],"truncated":false}`},
				{"client stream", "kinds.sum", `{"items":[{"value":1},{"value":2},{"value":39}]}`, `{"value":42}`},
				{"bidirectional stream", "kinds.chat", `{"items":[{"text":"a"},{"text":"b"}]}`, `{"items":[{"text":"a","saidOften":{}},{"text":"b","saidOften":{}}],"truncated":false}`},
			} {
				want := tc.want
				if b.lacksHTTP2 && tc.tool == "kinds.chat" {
					want = "Unknown tool"
				}
				if want == "Unknown tool" { // it leaves the lists once the backend has been examined
					testkit.Until(t, tc.tool+" is unknown", func() bool { return call(t, s, tc.tool, tc.arguments) == want })
				} else if got := call(t, s, tc.tool, tc.arguments); got != want {
					t.Errorf("%s: got %s, want %s", tc.name, got, want)
				}
			}
		})
	}
}

// start runs a backend until the test ends, and returns its port.
func start(t *testing.T, command []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Stderr, cmd.WaitDelay = os.Stderr, 10*time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v does not start: %v", command, err)
	}
	return strings.TrimSpace(port)
}

// refused has doctor say what is missing: the backend asks for a certificate.
func refused(t *testing.T, args []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, append([]string{"doctor"}, args...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "fix: --backend-cert FILE and --backend-key FILE") {
		t.Errorf("doctor without a certificate: %v\n%s", err, out)
	}
}

// awaitReady waits until the sidecar has found the backend and its tools.
func awaitReady(t *testing.T, s *sidecar.Server) {
	t.Helper()
	testkit.Try(t, "the sidecar is ready", func() error {
		if status, page := s.Probe(t, "/readyz?verbose"); status != http.StatusOK {
			return errors.New(page)
		}
		return nil
	})
}

// call returns the structured content of a result, or "code: message" of what the tool
// failed with, or the message of an error.
func call(t *testing.T, s *sidecar.Server, tool, arguments string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL("/rpc"), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Result struct {
			StructuredContent json.RawMessage `json:"structuredContent"`
			IsError           bool            `json:"isError"`
		} `json:"result"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	switch {
	case answer.Error != nil:
		return answer.Error.Message
	case answer.Result.IsError:
		for _, word := range []string{`"not_found"`, "no such word"} {
			if !strings.Contains(string(raw), word) {
				return string(raw)
			}
		}
		return "not_found: no such word"
	}
	return string(answer.Result.StructuredContent)
}
