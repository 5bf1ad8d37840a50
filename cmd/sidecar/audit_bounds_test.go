// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// audited starts a sidecar with a trail, whose further settings are those given.
func audited(t *testing.T, settings string) (s *limited, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.jsonl")
	return startLimited(t, "max_sessions", limitRow{value: "100", top: fmt.Sprintf("audit: {path: %q, %s}", path, settings)}), path
}

// block makes a trail one that cannot be written, and returns what makes it one that can.
func block(t *testing.T, path string) (mend func()) {
	t.Helper()
	if err := errors.Join(os.Rename(path, path+".1"), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

func (s *limited) ready(t *testing.T) (status int, page string) {
	t.Helper()
	return fetch(t, getRequest(t, "http://"+s.admin+"/readyz?verbose"))
}

// sample is the value of a metric without labels.
func (s *limited) sample(t *testing.T, name string) int {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(s.metrics(t))
	if found == nil {
		t.Fatalf("no metric %s", name)
	}
	v, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(v)
}

// awaitWritten waits until the trail is written again.
func (s *limited) awaitWritten(t *testing.T) {
	t.Helper()
	testkit.Until(t, "the trail is written again", func() bool {
		return s.sample(t, "outrigger_audit_failing") == 0 && s.sample(t, "outrigger_audit_queued_bytes") == 0
	})
}

// The process is not ready while a required trail cannot be written, and ready again when it
// can: no line is lost then. A trail that is not required never decides.
func TestReadinessFollowsARequiredTrail(t *testing.T) {
	t.Parallel()
	echo, healthy := fmt.Sprintf(echoes, "QUJD"), regexp.MustCompile(`(?m)^\s*audit +ok`)
	for _, required := range []bool{true, false} {
		s, path := audited(t, fmt.Sprintf("required: %v", required))
		if status, page := s.ready(t); status != http.StatusOK || !healthy.MatchString(page) {
			t.Errorf("required %v, at the start: %d\n%s", required, status, page)
		}
		mend := block(t, path)
		refused := 0
		call := func() {
			if _, text, _, err := s.post("/rpc", echo); err != nil {
				t.Fatal(err)
			} else if strings.Contains(text, `"UNAVAILABLE"`) {
				refused++
			}
		}
		testkit.Until(t, "the fault is known", func() bool {
			call()
			return s.sample(t, "outrigger_audit_failing") == 1
		})
		call() // the calls so far may all have been before the fault was known
		status, page := s.ready(t)
		if want := map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusOK}[required]; status != want ||
			!strings.Contains(page, "cannot be written: not a regular file") || refused > 0 != required {
			t.Errorf("required %v: %d, %d calls refused\n%s", required, status, refused, page)
		}
		mend()
		s.awaitWritten(t)
		if status, page := s.ready(t); status != http.StatusOK {
			t.Errorf("required %v, afterwards: %d\n%s", required, status, page)
		}
		if status, text, _, err := s.post("/rpc", echo); err != nil || status != http.StatusOK {
			t.Errorf("required %v, a call afterwards: %d %s %v", required, status, text, err)
		}
		if n := s.sample(t, "outrigger_audit_lines_dropped_total"); n != 0 {
			t.Errorf("required %v: %d lines dropped", required, n)
		}
		http.DefaultClient.CloseIdleConnections()
	}
}

// audit.max_payload_bytes: what is larger is replaced by a note of its size, in the arguments
// and in the result.
func TestAPayloadAboveItsBoundIsNoted(t *testing.T) {
	t.Parallel()
	s, path := audited(t, "payloads: true, max_payload_bytes: 1024")
	for _, size := range []int{1024 - len(`{"payload":""}`), 1024} { // the result, which has all members, is a little larger
		if status, text, _, err := s.post("/rpc", fmt.Sprintf(echoes, strings.Repeat("QUJD", size/4))); err != nil || status != http.StatusOK {
			t.Fatalf("%d %.200s %v", status, text, err)
		}
	}
	s.stop()
	var lines []string
	testkit.Until(t, "two lines", func() bool {
		lines = auditedAs(t, path, func(l *trail.AuditLine) string {
			if l.Phase != trail.PhaseEnd {
				return ""
			}
			return string(l.Raw)
		})
		return len(lines) >= 2
	})
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	const note = `{"dev.outrigger/omitted":{"bytes":`
	if !strings.Contains(lines[0], `"arguments":{"payload":"QUJD`) || !strings.Contains(lines[0], `"result":`+note) {
		t.Errorf("%s", lines[0])
	}
	if !strings.Contains(lines[1], `"arguments":`+note+`1038,"reason":"too large"}}`) || !strings.Contains(lines[1], `"result":`+note) || len(lines[1]) > 1500 {
		t.Errorf("%s", lines[1])
	}
}

// audit.max_queued_bytes: lines that wait for the disk need no more room than that. Further
// ones are dropped and counted, and those that waited are written in the end.
func TestTheQueueOfATrailIsBounded(t *testing.T) {
	t.Parallel()
	const most, payload = 1 << 20, 200 << 10
	s, path := audited(t, fmt.Sprintf("payloads: true, max_payload_bytes: %d, max_queued_bytes: %d", most, most))
	mend := block(t, path)
	const calls = 12
	for range calls { // each leaves a line of twice its payload
		if status, text, _, err := s.post("/rpc", fmt.Sprintf(echoes, strings.Repeat("QUJD", payload/4))); err != nil || status != http.StatusOK {
			t.Fatalf("a call waits for a trail that is not required: %d %.200s %v", status, text, err)
		}
		if queued := s.sample(t, "outrigger_audit_queued_bytes"); queued > most {
			t.Errorf("%d bytes are queued", queued)
		}
	}
	dropped := s.sample(t, "outrigger_audit_lines_dropped_total")
	if dropped < calls-4 || dropped >= calls {
		t.Errorf("%d lines of %d are dropped", dropped, calls)
	}
	mend()
	s.awaitWritten(t)
	lines := auditedAs(t, path, func(l *trail.AuditLine) string { return l.Operation })
	if got := strings.Count(strings.Join(lines, " "), "call_tool"); got != calls-dropped {
		t.Errorf("%d lines are written, %d dropped, of %d calls", got, dropped, calls)
	}
}
