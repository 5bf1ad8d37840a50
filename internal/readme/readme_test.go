// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// block is one fenced block of the page.
type block struct {
	kind, text string
}

// TestCommands runs every sh block of the README in its order, from the
// repository's root. The one that serves runs in the background until the end.
// A json block right behind a command is what the command must print, as a value,
// and a text block, byte for byte.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the sidecar")
	}
	blocks := readBlocks(t, "README.md", "")
	ran, compared := 0, 0
	for i, b := range blocks {
		if b.kind != "sh" {
			continue
		}
		ran++
		if strings.Contains(b.text, " serve ") {
			serve(t, b.text)
			continue
		}
		got := run(t, b.text)
		if i+1 < len(blocks) && blocks[i+1].kind == "json" {
			compare(t, b.text, blocks[i+1].text, got)
		}
		if i+1 < len(blocks) && blocks[i+1].kind == "text" {
			if diff := cmp.Diff(blocks[i+1].text, strings.TrimSpace(string(got))); diff != "" {
				t.Errorf("%s\nprints something else than the README says (-README +printed):\n%s", b.text, diff)
			}
			compared++
		}
	}
	if compared < 3 {
		t.Errorf("compared %d answers byte for byte, the page has more: is a fence misspelt?", compared)
	}
	if ran < 4 {
		t.Errorf("ran %d commands, the page has more: is a fence misspelt?", ran)
	}
}

// TestFiveCommands runs what docs/five-commands.md does on one's own machine: the token and its entry, and the call, with the example service in place
// of the cluster's. The whole page runs on a real node (make k8s-test).
func TestFiveCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the sidecar")
	}
	ran := 0
	blocks := readBlocks(t, "docs/five-commands.md", "")
	folder := t.TempDir()
	file, callers := filepath.Join(folder, "agent.token"), filepath.Join(folder, "callers.yaml")
	local := strings.NewReplacer("agent.token", file, "callers.yaml", callers, "sidecar token", "go run ./cmd/sidecar token", "sidecar call", "go run ./cmd/sidecar call",
		"--server http://127.0.0.1:8080 --token-file agent.token", "--demo")
	for i, b := range blocks {
		switch command, _, _ := strings.Cut(b.text, " && kubectl create secret"); {
		case strings.Contains(command, "sidecar token"):
			ran++
			run(t, local.Replace(command))
			entries, err := os.ReadFile(callers)
			token, tokenErr := os.ReadFile(file)
			if err := errors.Join(err, tokenErr); err != nil || len(token) != 44 || !strings.HasPrefix(string(entries), "callers:\n  - name: agent\n") {
				t.Errorf("the callers are %q, the token is %q (%v)", entries, token, err)
			}
		case strings.Contains(command, "sidecar call"):
			ran++
			compare(t, command, blocks[i+1].text, run(t, local.Replace(command)))
		}
	}
	if ran != 2 {
		t.Errorf("ran %d commands, want two: is a fence misspelt?", ran)
	}
}

// TestTestingAgents runs every command of docs/testing-agents.md in its order. A json block behind one is what it prints.
func TestTestingAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the sidecar")
	}
	folder := t.TempDir()
	binary := filepath.Join(folder, "sidecar")
	run(t, "go build -o "+binary+" ./cmd/sidecar")
	local := strings.NewReplacer("bin/sidecar", binary, ".tmp/", folder+"/")
	blocks, ran := readBlocks(t, "docs/testing-agents.md", ""), 0
	for i, b := range blocks {
		if b.kind != "sh" {
			continue
		}
		ran++
		got := run(t, local.Replace(b.text))
		if i+1 < len(blocks) && blocks[i+1].kind == "json" {
			compare(t, b.text, blocks[i+1].text, got)
		} else if len(got) == 0 {
			t.Errorf("%s\nprints nothing", b.text)
		}
	}
	if ran != 4 {
		t.Errorf("ran %d commands, want four: is a fence misspelt?", ran)
	}
}

// readBlocks reads the blocks of a page, or of the section under a heading.
func readBlocks(t *testing.T, page, heading string) []block {
	t.Helper()
	file, err := os.Open(filepath.Join(root(), filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out []block
	var current *block
	inSection := heading == ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case current == nil && heading != "" && strings.HasPrefix(line, "##"):
			inSection = line == heading
		case !inSection:
		case isFence && current == nil:
			current = &block{kind: fence}
		case isFence:
			current.text = strings.TrimSpace(current.text)
			out = append(out, *current)
			current = nil
		case current != nil:
			current.text += line + "\n"
		}
	}
	return out
}

func root() string { return filepath.Join("..", "..") }

// serve starts a command that goes on, and waits until it takes calls.
func serve(t *testing.T, command string) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), "bash", "-c", command)
	cmd.Dir = root()
	// `go run` does not pass signals on.
	end := testkit.Group(cmd)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		_ = cmd.Wait()
	})
	ready := make(chan string, 1)
	go func() {
		var seen strings.Builder
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			seen.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), `"ready"`) {
				ready <- ""
				_, _ = io.Copy(io.Discard, stderr)
				return
			}
		}
		ready <- seen.String()
	}()
	select {
	case failed := <-ready:
		if failed != "" {
			t.Fatalf("%s ended:\n%s", command, failed)
		}
	case <-time.After(3 * time.Minute):
		t.Fatalf("%s was not ready in time", command)
	}
	conn, err := net.DialTimeout("tcp", "127.0.0.1:8080", time.Second)
	if err != nil {
		t.Fatalf("nothing listens where the README says: %v", err)
	}
	_ = conn.Close()
}

func run(t *testing.T, command string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir = root()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, stderr.String())
	}
	return out
}

// compare compares two JSON texts as values, with their numbers as written.
func compare(t *testing.T, command, want string, got []byte) {
	t.Helper()
	if diff := cmp.Diff(value(t, []byte(want)), value(t, got)); diff != "" {
		t.Errorf("%s\nprints something else than the README says (-README +printed):\n%s", command, diff)
	}
}

func value(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}
