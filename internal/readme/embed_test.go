// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestEmbedding compiles and runs the Go program of the README, asks it something, and
// ends it as an operator does.
func TestEmbedding(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a program")
	}
	var program string
	for _, b := range readBlocks(t, "README.md", "") {
		if b.kind == "go" {
			program = b.text
		}
	}
	if program == "" {
		t.Fatal("the README has no Go program")
	}
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "embedded")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source)
	build.Dir = root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), binary)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if got := ping(t); got != `{"jsonrpc":"2.0","id":"1","result":{}}` {
		t.Errorf("it answers %s", got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

// ping asks the program until it answers.
func ping(t *testing.T) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	var body []byte
	testkit.Try(t, "the program answers", func() error {
		res, err := client.Post("http://127.0.0.1:8090/rpc", "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`))
		if err != nil {
			return err // it does not listen yet
		}
		defer func() { _ = res.Body.Close() }()
		body, err = io.ReadAll(res.Body)
		return err
	})
	return string(body)
}
