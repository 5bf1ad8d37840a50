// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// buildEtcd compiles etcd's own program. It runs as a process, and not in the test's through
// etcd's package embed: so it can be killed, it is not slowed down by the race detector, and its
// goroutines are not taken for some that the tests left.
func buildEtcd(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "go.etcd.io/etcd/server/v3")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build etcd: %w\n%s", err, text)
	}
	return nil
}

// etcd is a running server.
type etcd struct {
	addr, data string
	cmd        *exec.Cmd
	reading    sync.WaitGroup
}

// startEtcd starts a cluster of one member on a free port.
func startEtcd(t *testing.T) *etcd {
	t.Helper()
	e := &etcd{addr: testkit.Reserved(t), data: t.TempDir()}
	e.start(t)
	t.Cleanup(func() { e.stop(syscall.SIGTERM) })
	return e
}

// start runs the server with the data that it has, on the port that it had.
func (e *etcd) start(t *testing.T) {
	t.Helper()
	// The member is alone, so no one needs to reach its address for peers.
	const peer = "http://127.0.0.1:1"
	e.cmd = exec.Command(built.etcd, "--name", "alone", "--data-dir", e.data, "--unsafe-no-fsync",
		"--listen-client-urls", "http://"+e.addr, "--advertise-client-urls", "http://"+e.addr,
		"--listen-peer-urls", "http://127.0.0.1:0", "--initial-advertise-peer-urls", peer, "--initial-cluster", "alone="+peer,
		"--enable-grpc-gateway=false", "--log-outputs", "stderr", "--log-level", "info")
	log, write := io.Pipe()
	e.cmd.Stderr = write
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	e.reading.Go(func() { defer close(listening); readLog(log, listening) })
	e.reading.Go(func() { _ = e.cmd.Wait(); _ = write.Close() })
	e.addr = testkit.Find(t, "etcd listens", listening, func(string) bool { return true })
}

// stop ends the process and waits for its end.
func (e *etcd) stop(signal syscall.Signal) {
	_ = e.cmd.Process.Signal(signal)
	e.reading.Wait()
}

// readLog reads the whole log, and says once where clients are served.
func readLog(log io.Reader, listening chan<- string) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	told := false
	for lines.Scan() {
		var entry struct{ Msg, Address string }
		if !told && json.Unmarshal(lines.Bytes(), &entry) == nil && strings.HasPrefix(entry.Msg, "serving client traffic") {
			listening <- entry.Address
			told = true
		}
	}
}

// backend are the flags for a sidecar in front of the server.
func (e *etcd) backend(more ...string) []string {
	// etcd's own clients revoke leases and delete keys, which the names of these RPCs would gate.
	return append([]string{"--backend", "grpc://" + e.addr, "--descriptors", built.descriptors, "--gate", "marked"}, more...)
}

// serve starts a sidecar in front of the server.
func (e *etcd) serve(t *testing.T, more ...string) *sidecar.Server {
	t.Helper()
	return sidecar.ServeReady(t, built.binary, e.backend(more...)...)
}

// metric is the value of one of the server's metrics that has no labels.
func (e *etcd) metric(t *testing.T, name string) float64 {
	t.Helper()
	client := &http.Client{Timeout: testkit.Limit(), Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + e.addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(body)
	if found == nil {
		t.Fatalf("no metric %s", name)
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// dial connects grpc-go until the test ends.
func dial(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn := caller.DialGRPC(t, addr)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// bounded is a context for what must not hang.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Limit())
	t.Cleanup(cancel)
	return ctx
}
