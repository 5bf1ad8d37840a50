// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// What `make h2-test` installed.
var (
	h2spec  = flag.String("h2spec", "", "h2spec")
	node    = flag.String("node", "", "Node")
	python  = flag.String("python", "", "a Python with h2 and grpcio")
	clients = flag.String("clients", "", "the folder of the clients' scripts")
)

// binary is the sidecar. TestMain writes it before the first test starts.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	if *h2spec == "" {
		os.Exit(m.Run()) // all tests are skipped
	}
	os.Exit(sidecar.Main(m, func(_ context.Context, built, _ string) error {
		binary = built
		return nil
	}))
}

// needsPeers skips a test where the peers are not installed.
func needsPeers(t *testing.T) {
	t.Helper()
	if *h2spec == "" {
		t.Skip("make h2-test installs the peers and runs this")
	}
}

// token authenticates the one caller of a sidecar with tokens.
const token = "token-of-the-matrix"

// tokensFile is --tokens with that caller.
func tokensFile(t *testing.T) string {
	t.Helper()
	sum := sha256.Sum256([]byte(token))
	path := filepath.Join(t.TempDir(), "callers.yaml")
	text := "callers:\n  - name: matrix\n    token_sha256: [\"" + hex.EncodeToString(sum[:]) + "\"]\n    tools: [\"*\"]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// secure is a certificate for loopback, and who issued it.
type secure struct {
	pair tlstest.Pair
	ca   string
}

func newSecure(t *testing.T) secure {
	t.Helper()
	authority := tlstest.NewAuthority(t)
	ca, err := os.ReadFile(authority.File)
	if err != nil {
		t.Fatal(err)
	}
	return secure{authority.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}}), string(ca)}
}

// transport is h2c or TLS.
type transport struct {
	name, scheme string
	tls          *secure
}

func transports(t *testing.T) []transport {
	t.Helper()
	safe := newSecure(t)
	return []transport{{"h2c", "http", nil}, {"TLS", "https", &safe}}
}

// serve starts a sidecar in front of the demo.
func (tr transport) serve(t *testing.T, args ...string) *sidecar.Server {
	t.Helper()
	if tr.tls != nil {
		args = append(args, "--tls-cert", tr.tls.pair.CertFile, "--tls-key", tr.tls.pair.KeyFile)
	}
	return sidecar.ServeReady(t, binary, append([]string{"--demo", "--health", "127.0.0.1:0"}, args...)...)
}

func (tr transport) ca() string {
	if tr.tls == nil {
		return ""
	}
	return tr.tls.ca
}

// outcome is what a client reports of a case. Statuses are of HTTP or of gRPC, one for each request.
type outcome struct {
	Name     string `json:"name"`
	Statuses []int  `json:"statuses"`
	Bytes    int    `json:"bytes"`
	Error    string `json:"error"`
}

// clientTimeout bounds what one client does.
const clientTimeout = 5 * time.Minute

// script runs a script with cases for standard input and returns its outcomes by name.
func script(t *testing.T, ca string, cases any, command ...string) map[string]outcome {
	t.Helper()
	in, err := json.Marshal(map[string]any{"ca": ca, "cases": cases})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v: %v\n%s", command, err, stderr.String())
	}
	got := map[string]outcome{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var one outcome
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		got[one.Name] = one
	}
	return got
}

// post sends what keeps a sidecar busy or asks its operator's listener, and returns the status.
func post(ctx context.Context, client *http.Client, url, body string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
