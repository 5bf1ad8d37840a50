// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Example names one of grpc-go's example servers.
type Example string

// The examples in use. Reflection is the only one that serves reflection.
const (
	RouteGuide   Example = "route_guide/server"
	HelloWorld   Example = "helloworld/greeter_server"
	ErrorDetails Example = "features/error_details/server"
	Reflection   Example = "features/reflection/server"
)

// Examples lists them all.
func Examples() []Example { return []Example{RouteGuide, HelloWorld, ErrorDetails, Reflection} }

// binary is the example's file under the directory that BuildExamples filled.
func (e Example) binary(dir string) string {
	return filepath.Join(dir, string(bytes.ReplaceAll([]byte(e), []byte("/"), []byte("-"))))
}

// BuildExamples compiles every example into dir. The working directory must be
// inside this module, whose go.mod pins their version.
func BuildExamples(ctx context.Context, dir string) error {
	for _, e := range Examples() {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", e.binary(dir), "google.golang.org/grpc/examples/"+string(e)) //nolint:gosec // a constant of this package
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build example %s: %w\n%s", e, err, text)
		}
	}
	return nil
}

// Run starts an example on a free port and returns its host:port. Port 0 would
// not do: most examples do not say which port they got.
func (e Example) Run(tb testing.TB, dir string) string {
	tb.Helper()
	addr := testkit.Reserved(tb)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatal(err)
	}
	var output bytes.Buffer
	cmd := exec.Command(e.binary(dir), "-port", port) //nolint:gosec // built by this test run
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(testkit.Limit()):
			_ = cmd.Process.Kill()
			<-done
		}
	})
	limit := time.Now().Add(testkit.Limit())
	for {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = conn.Close()
			return addr
		}
		select {
		case <-done:
			tb.Fatalf("example %s ended at its start:\n%s", e, output.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(limit) {
			tb.Fatalf("example %s does not listen on %s", e, addr)
		}
	}
}
