// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// ledger is a set of calls by their ids.
type ledger struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (l *ledger) add(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids == nil {
		l.ids = map[string]bool{}
	}
	l.ids[id] = true
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ids)
}

// missing are the ids that other lacks.
func (l *ledger) missing(other map[string]bool) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for id := range l.ids {
		if !other[id] {
			out = append(out, id)
		}
	}
	return out
}

// noteBackend starts a backend that writes down which calls reach it, before it carries them out.
func noteBackend(t *testing.T) (*frontend, *ledger) {
	t.Helper()
	f, reached := newFront(t), &ledger{}
	id := regexp.MustCompile(`call-\d+`)
	note := func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/Echo") {
			raw, _ := io.ReadAll(r.Body) // what is cut off has reached the backend too
			if found := id.Find(raw); found != nil {
				reached.add(string(found))
			}
			r.Body = io.NopCloser(bytes.NewReader(raw))
		}
		return false
	}
	f.refuse.Store(&note)
	return f, reached
}

// load calls the sidecar at an address by eight callers until it no longer answers. It
// returns the calls that were answered, and a function that waits for the end.
func load(address string) (answered *ledger, wait func()) {
	answered = &ledger{}
	var callers sync.WaitGroup
	for n := range 8 {
		callers.Go(func() {
			client := oneShot()
			for i := range 100_000 {
				id := fmt.Sprintf("call-%d", n*100_000+i)
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":%q}}}`, id, id)
				resp, err := client.Post("http://"+address+"/rpc", "application/json", strings.NewReader(body)) //nolint:noctx // the end of the process ends it
				if err != nil {
					return
				}
				raw, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil {
					return
				}
				if resp.StatusCode == http.StatusOK && bytes.Contains(raw, []byte(id)) {
					answered.add(id)
				}
			}
		})
	}
	return answered, callers.Wait
}

// recorded are the ids of requests in a trail, by phase, and what cannot be read.
func recorded(t *testing.T, path string) (begun, ended map[string]bool, faults []trail.Fault) {
	t.Helper()
	begun, ended = map[string]bool{}, map[string]bool{}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	err = trail.ReadAudit(f, func(l *trail.AuditLine) error {
		var request struct {
			ID string `json:"request_id"`
		}
		if err := json.Unmarshal(l.Raw, &request); err != nil {
			return err
		}
		switch l.Phase {
		case trail.PhaseBegin:
			begun[request.ID] = true
		case trail.PhaseEnd:
			if ended[request.ID] {
				t.Errorf("%s ends twice", request.ID)
			}
			ended[request.ID] = true
		case trail.PhaseTask, trail.PhaseChange:
		}
		return nil
	}, func(f trail.Fault) { faults = append(faults, f) })
	if err != nil {
		t.Fatal(err)
	}
	return begun, ended, faults
}

// underLoad starts a sidecar with a trail, and sends it a signal under load.
func underLoad(t *testing.T, signal syscall.Signal, args ...string) (path string, reached, answered *ledger, exit error) {
	t.Helper()
	f, reached := noteBackend(t)
	path = filepath.Join(t.TempDir(), "audit.jsonl")
	p := startBinary(t, append([]string{"serve", "--backend", f.url, "--record-dir", "off", "--audit", path}, args...)...)
	answered, wait := load(p.main)
	// A call waits for its line a second at most where the trail is not required. After a disk that hung that long, all lines
	// are on it once as many calls as two of each caller have been answered.
	enough := 300
	testkit.Until(t, "300 calls, and a disk that keeps up", func() bool {
		page, _ := get(t, oneShot(), "http://"+p.admin+"/metrics")
		isFailing := strings.Contains(page, "\noutrigger_audit_failing 1\n")
		if isFailing {
			enough = answered.count() + 16
		}
		return answered.count() >= enough && !isFailing
	})
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	exit = p.cmd.Wait()
	wait()
	return path, reached, answered, exit
}

// After a SIGKILL no call is missing from the trail whose backend was reached, by the
// backend's own account.
func TestATrailAfterSIGKILL(t *testing.T) {
	t.Parallel()
	path := ""
	for _, args := range [][]string{{"--audit-fsync", "always"}, {"--audit-required"}} {
		var reached, answered *ledger
		path, reached, answered, _ = underLoad(t, syscall.SIGKILL, args...)
		begun, ended, faults := recorded(t, path)
		if missing := reached.missing(begun); len(missing) > 0 {
			t.Errorf("%v: the backend was reached by %v, which the trail does not have", args, missing)
		}
		if missing := answered.missing(begun); len(missing) > 0 {
			t.Errorf("%v: %v were answered, and the trail does not have them", args, missing)
		}
		t.Logf("%v: %d reached the backend, %d answered, %d begin, %d end, unreadable: %v", args, reached.count(), answered.count(), len(begun), len(ended), faults)
		if len(faults) > 1 || len(faults) == 1 && !faults[0].IsPartial {
			t.Errorf("%v: %v", args, faults)
		}
	}
	continuesAfterATornLine(t, path)
}

// continuesAfterATornLine leaves half a line at the end of a trail. The reader and the next
// start warn of it.
func continuesAfterATornLine(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"schema":"outrigger.audit.v1","ti`); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"audit", path}, strings.NewReader(""), &stdout, &stderr, nil); code != exitOK ||
		!strings.Contains(stderr.String(), "the last line is incomplete") || !strings.Contains(stdout.String(), "lab.echo") {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
	p := startBinary(t, "serve", "--demo", "--record-dir", "off", "--audit", path)
	if !strings.Contains(p.log, "the last line of the file is incomplete") {
		t.Errorf("the next start does not warn:\n%s", p.log)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(raw, []byte("}\n")) || !bytes.Contains(raw, []byte("\"ti\n{")) {
		t.Errorf("the next line does not begin a line: …%s", raw[max(0, len(raw)-1000):])
	}
}

// After a SIGTERM under load nothing is missing.
func TestATrailAfterSIGTERM(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--audit-fsync", "interval"}, {"--audit-required"}} {
		path, reached, answered, exit := underLoad(t, syscall.SIGTERM, args...)
		begun, ended, faults := recorded(t, path)
		if missing := append(reached.missing(ended), answered.missing(ended)...); len(missing) > 0 || exit != nil || len(faults) > 0 {
			t.Errorf("%v: %v are missing, %v, %v", args, missing, faults, exit)
		}
		if args[0] == "--audit-required" && len(begun) != len(ended) {
			t.Errorf("%d begin and %d end", len(begun), len(ended))
		}
		t.Logf("%v: %d reached the backend, %d answered, %d end", args, reached.count(), answered.count(), len(ended))
	}
}
