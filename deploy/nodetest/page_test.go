// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/deploy/node"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// fiveCommands is the page that testPage runs.
const fiveCommands = "../../docs/five-commands.md"

// pageBlock is a command of a page, with what it prints where the page says so.
type pageBlock struct{ command, output string }

// pageBlocks reads the sh blocks of a page, each with the json block behind it.
func pageBlocks(t *testing.T, path string) []pageBlock {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []pageBlock
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```(?:\n+```json\n(.*?)```)?").FindAllStringSubmatch(string(text), -1) {
		out = append(out, pageBlock{strings.TrimSpace(m[1]), strings.TrimSpace(m[2])})
	}
	return out
}

// buildSidecar builds the sidecar that people have on their machines.
func (p *prepared) buildSidecar(ctx context.Context, work string) error {
	p.Sidecar = filepath.Join(work, "sidecar")
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "grpcnotrace", "-o", p.Sidecar, "./cmd/sidecar")
	cmd.Dir = "../.."
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the sidecar: %w\n%s", err, text)
	}
	return nil
}

// shell runs the commands of a page, as a person does who has a clone, kubectl and the sidecar.
type shell struct {
	folder      string
	environment []string
}

// newShell makes a folder with a link to deploy, where the page's commands run.
func newShell(t *testing.T, n *node.Node, p prepared) *shell {
	t.Helper()
	folder := t.TempDir()
	clone, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(folder, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		filepath.Join(folder, "deploy"): filepath.Join(clone, "deploy"), filepath.Join(bin, "kubectl"): p.Kubectl, filepath.Join(bin, "sidecar"): p.Sidecar,
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	return &shell{folder, append(n.Environment(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+folder)}
}

// command is for the plain shell: a page must not need bash.
func (s *shell) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Dir, cmd.Env = s.folder, s.environment
	// A shell and what it runs end as one.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// run runs a command to its end.
func (s *shell) run(t *testing.T, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	cmd := s.command(ctx, text)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", text, err, out, stderr.String())
	}
	return string(out)
}

// forward runs a command that goes on until the test ends, and waits for the line that says that it forwards a port.
func (s *shell) forward(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := s.command(ctx, text)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr transcript
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	ready := make(chan bool, 1)
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "Forwarding from") {
				ready <- true
				_, _ = io.Copy(io.Discard, stdout)
				return
			}
		}
		ready <- false
	}()
	select {
	case ok := <-ready:
		if !ok {
			t.Fatalf("%s ended: %s", text, stderr.String())
		}
	case <-time.After(5 * time.Minute):
		t.Fatalf("%s forwards nothing: %s", text, stderr.String())
	}
}

// testPage runs docs/five-commands.md command by command, with kubectl, on the node that has nothing of the injector yet, and prints their times.
func testPage(t *testing.T, n *node.Node, p prepared, r *result) {
	s := newShell(t, n, p)
	t.Cleanup(func() {
		if t.Failed() {
			for _, text := range []string{"kubectl get pods,events --all-namespaces", "kubectl logs --namespace outrigger-system deployment/outrigger-injector",
				"kubectl logs --namespace shop deployment/fleet --container sidecar"} {
				out, err := s.command(context.Background(), text).CombinedOutput()
				t.Logf("%s: %v\n%s", text, err, out)
			}
		}
		s.clear(t)
	})
	blocks := pageBlocks(t, fiveCommands)
	if len(blocks) != 6 {
		t.Fatalf("the page has %d commands, want five and the one that shows the audit line: is a fence misspelt?", len(blocks))
	}
	began, last, compared := time.Now(), "", 0
	var times []string
	for i, block := range blocks {
		step := time.Now()
		if strings.Contains(block.command, "port-forward") {
			s.forward(t, block.command)
		} else {
			last = s.run(t, block.command)
		}
		if strings.Contains(block.command, "kubectl logs") {
			// The trail is written within 100 ms, and the kubelet's file a moment later.
			testkit.Try(t, "the audit line is there", func() error {
				if last = s.run(t, block.command); last == "" {
					return errors.New("not yet")
				}
				return nil
			})
		}
		took := time.Since(step).Round(10 * time.Millisecond)
		t.Logf("%6v  %s", took, block.command)
		if i < 5 {
			times = append(times, took.String())
		}
		if block.output != "" {
			compared++
			if diff := cmp.Diff(block.output, strings.TrimSpace(last)); diff != "" {
				t.Errorf("%s prints something else than the page says (-page +printed):\n%s", block.command, diff)
			}
		}
		if i == 4 {
			r.page = fmt.Sprintf("%v in all: %s", time.Since(began).Round(10*time.Millisecond), strings.Join(times, ", "))
		}
	}
	t.Logf("%6v  in all", time.Since(began).Round(10*time.Millisecond))
	var audited struct {
		Tool, Decision, Code string
		Caller               struct{ Name string }
	}
	if err := json.Unmarshal([]byte(last), &audited); err != nil || audited.Tool != "fleet.get_vehicle" || audited.Decision != "allowed" || audited.Code != "OK" || audited.Caller.Name != "agent" {
		t.Errorf("the audit line is %q: %+v (%v)", last, audited, err)
	}
	if compared != 1 {
		t.Errorf("compared %d answers, the page has one", compared)
	}
}

// clear takes away what the page has made, as the page says.
func (s *shell) clear(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile(fiveCommands)
	if err != nil {
		t.Fatal(err)
	}
	deletions := regexp.MustCompile("(?m)^kubectl delete .*$").FindAllString(string(page), -1)
	if len(deletions) != 2 {
		t.Errorf("the page deletes %q", deletions)
	}
	for _, text := range deletions {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		if out, err := s.command(ctx, text).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", text, err, out)
		}
		cancel()
	}
}
