// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// signals is what sidecars leave for operators.
type signals struct {
	metrics map[string]*family
	log     map[string]set    // keys by level and message
	lines   map[string]string // of the audit trail and of run records, by what they are about
	version string            // of the sidecar, which lines have
}

// family is a family of /metrics: help, type, and the values of its labels.
type family struct {
	help, kind string
	labels     map[string]set
}

type set map[string]bool

func (s set) sorted() []string { return slices.Sorted(maps.Keys(s)) }

// add adds a value to a set of a map, which may be new.
func add(to map[string]set, key, value string) {
	if to[key] == nil {
		to[key] = set{}
	}
	to[key][value] = true
}

// TestSignals compares what operators see of sidecars that were used on every edge, with all optional parts but those that replicas
// share, with what is on record: the families, labels and buckets of /metrics, the messages of the log with their keys, and a line of the
// audit trail and of the run record for each kind of request and outcome.
func TestSignals(t *testing.T) {
	t.Parallel()
	x := signals{map[string]*family{}, map[string]set{}, map[string]string{}, ""}
	x.ofEveryEdge(t, messages(), `
demo: true
log: {level: debug, max_calls_per_second: 100000}
limits:
  max_message_bytes: 64KiB
  max_memory_bytes: 1GiB
  caller_rate: {per_second: 100000, burst: 100000}
  tool_classes: [{name: echoes, tools: ["lab.echo"]}]
  caller_classes: [{name: strangers, callers: ["*"]}]
access:
  policy: {rules: [{name: ashore, tools: ["fleet.get_map"], effect: deny, when: "true"}]}
`)
	x.ofEveryEdge(t, natives(), "backend: {url: '"+startFixture(t)+"'}\nlimits: {max_page_entries: 20}\n")
	x.ofEveryEdge(t, slowCalls(), slowTools)
	x.ofStdio(t)
	x.ofCallers(t)
	x.ofQueue(t)
	var metrics, log, lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(x.metrics)) {
		f := x.metrics[name]
		fmt.Fprintf(&metrics, "%s %s: %s\n", f.kind, name, f.help)
		for _, label := range slices.Sorted(maps.Keys(f.labels)) {
			values := f.labels[label].sorted()
			slices.SortStableFunc(values, func(a, b string) int { // bounds are numbers
				x, _ := strconv.ParseFloat(a, 64)
				y, _ := strconv.ParseFloat(b, 64)
				return cmp.Compare(x, y)
			})
			fmt.Fprintf(&metrics, "  %s: %s\n", label, strings.Join(values, " "))
		}
	}
	for _, message := range slices.Sorted(maps.Keys(x.log)) {
		fmt.Fprintf(&log, "%s\n  %s\n", message, strings.Join(x.log[message].sorted(), " "))
	}
	for _, key := range slices.Sorted(maps.Keys(x.lines)) {
		fmt.Fprintf(&lines, "%s\n%s\n", key, x.lines[key])
	}
	onRecord(t, "signals_metrics.txt", metrics.String())
	onRecord(t, "signals_log.txt", log.String())
	onRecord(t, "signals_lines.txt", lines.String())
}

// ofEveryEdge has messages of the wire record, and what operators do.
func (x *signals) ofEveryEdge(t *testing.T, messages []message, config string) {
	t.Helper()
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	dir := t.TempDir()
	s := serve(t, "--record-dir", dir+"/runs", "--config", written(t, "sidecar.yaml", config+`
deterministic: true
audit: {path: `+dir+`/audit.jsonl, required: true, payloads: true}
record: {payloads: true}
telemetry: {endpoint: "`+collector.URL+`"}
`))
	known := map[string]string{}
	for _, m := range messages {
		m.send(t, s.Addr(), known)
	}
	for path, body := range map[string]string{"/trust": `{"trust":"trusted"}`, "/refresh": ""} {
		m := message{name: path, method: "POST", path: path, header: []string{asJSON}, body: body}
		if answer := m.raw(t, strings.TrimPrefix(s.AdminURL(""), "http://"), func(string) {}); !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
			t.Errorf("%s: %s", path, answer)
		}
	}
	x.ofMetrics(t, s)
	s.Signal(t, syscall.SIGTERM)
	s.Wait(t)
	x.ofFiles(t, s.Text(), dir)
}

// ofStdio has a conversation of each dialect.
func (x *signals) ofStdio(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	s := sidecar.Pipe(t, built.binary, "--demo", "--deterministic", "--audit", dir+"/audit.jsonl", "--record-dir", dir+"/runs")
	for _, line := range []string{
		envelope(canonicalID, call{"tools/call", `{"name":"lab.echo","arguments":{"nonce":"n"}}`}), "{", `{"jsonrpc":"2.0","method":"fleet/moved","params":{}}`,
		ofModern(call{"tools/call", `{"name":"lab_echo","arguments":{"nonce":"n"}}`}).body, envelope("l", call{"initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}`}),
		envelope("l", fails("lab_fail", "FAIL_CODE_INTERNAL")),
	} {
		s.MustSend(t, line)
		if !strings.Contains(line, "fleet/moved") {
			s.Next(t)
		}
	}
	s.CloseInput()
	s.Wait(t)
	x.ofFiles(t, s.Text(), dir)
}

// ofCallers has callers of each kind, and a rate limit service that is away, in front of a backend that is called in their names.
func (x *signals) ofCallers(t *testing.T) {
	t.Helper()
	ca, issuer, dir := tlstest.NewAuthority(t), oauthtest.Start(t), t.TempDir()
	own := ca.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	const secret, resource = "0123456789abcdef0123456789abcdef", "https://tools.example.com/mcp"
	s := serve(t, "--record-dir", dir+"/runs", "--config", written(t, "sidecar.yaml", `
backend:
  url: "`+startFixture(t)+`"
  identity: {mode: signed, signed: {key_file: `+own.KeyFile+`, issuer: "https://tools.example.com", audience: fixture}}
listeners: {tls: {cert_file: `+own.CertFile+`, key_file: `+own.KeyFile+`}}
audit: {path: `+dir+`/audit.jsonl}
log: {level: debug}
rate_service: {url: "grpc://`+testkit.Dead(t)+`", max_failures: 1000}
access:
  tokens_file: `+written(t, "callers.yaml", fmt.Sprintf("callers: [{name: planner, token_sha256: [%q], tools: [test_simple_text]}]\n", fmt.Sprintf("%x", sha256.Sum256([]byte(secret)))))+`
  oauth: {issuer_urls: ["`+issuer.URL+`"], resource: "`+resource+`", tool_scopes: [{tools: ["test_error_handling"], scopes: [admin]}]}
`))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool}, DisableKeepAlives: true}}
	for _, token := range []string{"", "wrong", secret, issuer.Token(resource, nil)} {
		for _, tool := range []string{"test_simple_text", "test_error_handling"} {
			body := envelope(canonicalID, call{"tools/call", `{"name":"` + tool + `","arguments":{}}`})
			req := request(t, http.MethodPost, "https://"+s.Addr()+"/rpc", strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	x.ofMetrics(t, s)
	s.Signal(t, syscall.SIGTERM)
	s.Wait(t)
	x.ofFiles(t, s.Text(), dir)
}

// ofQueue has a call that waits for the end of another.
func (x *signals) ofQueue(t *testing.T) {
	t.Helper()
	s := serve(t, "--demo", "--max-calls", "1", "--queue-wait", "60s")
	ctx, leave := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			req := request(t, http.MethodPost, s.URL("/rpc"), strings.NewReader(envelope(canonicalID, call{"tools/call", `{"name":"lab.sleep","arguments":{"duration":"25s"}}`}))).WithContext(ctx)
			req.Header.Set("Content-Type", "application/json")
			if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	testkit.Until(t, "a call is queued", func() bool {
		_, page := s.Probe(t, "/metrics")
		return strings.Contains(page, "outrigger_queue_tool_waiting{")
	})
	x.ofMetrics(t, s)
	leave()
	calls.Wait()
}

// written is the path of a new file with a text.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// onRecord compares a text with a file of testdata, or writes the file.
func onRecord(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-on record +now):\n%s", path, diff)
	}
}

var (
	metricLine  = regexp.MustCompile(`^([a-z_]+?)(_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`)
	metricLabel = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
)

// ofMetrics adds the families that a sidecar shows: help, type, labels with their values, and the bounds of buckets. Those of the
// process and of Go's runtime are the library's.
func (x *signals) ofMetrics(t *testing.T, s *sidecar.Server) {
	t.Helper()
	status, page := s.Probe(t, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, page)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(page), "\n") {
		if words := strings.SplitN(line, " ", 4); words[0] == "#" {
			f := x.metrics[words[2]]
			if f == nil {
				f = &family{labels: map[string]set{}}
				x.metrics[words[2]] = f
			}
			if words[1] == "HELP" {
				f.help = words[3]
			} else {
				f.kind = words[3]
			}
			continue
		}
		found := metricLine.FindStringSubmatch(line)
		if found == nil {
			t.Fatalf("no sample: %s", line)
		}
		f := x.metrics[found[1]]
		if f == nil {
			f = x.metrics[found[1]+found[2]]
		}
		for _, label := range metricLabel.FindAllStringSubmatch(found[3], -1) {
			value := cmp.Or(label[2], `""`)
			if strings.HasPrefix(line, "outrigger_build_info") {
				if label[1] == "version" {
					x.version = value
				}
				value = "…"
			}
			add(f.labels, label[1], value)
		}
	}
	maps.DeleteFunc(x.metrics, func(name string, _ *family) bool {
		return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_")
	})
}

// varying are the members of lines whose values differ from run to run if the clock and ids are not fixed, and ports.
var varying = regexp.MustCompile(`("(?:time|timestamp|id|trace_id|traceId)":")[^"]*|("(?:duration_ms|durationMs)":)[0-9.]+|(127\.0\.0\.1:)\d+`)

// ofFiles adds the log, the audit trail and the run records of a process that has ended.
func (x *signals) ofFiles(t *testing.T, log, dir string) {
	t.Helper()
	for line := range strings.Lines(log) {
		fields := object(t, line)
		for key := range fields {
			add(x.log, fmt.Sprintf("%s: %s", fields["level"], fields["msg"]), key)
		}
	}
	x.first(t, filepath.Join(dir, "audit.jsonl"), "phase", "caller.source", "edge", "era", "operation", "code", "decision", "outcome")
	x.first(t, filepath.Join(dir, "runs/*/*/*/events.jsonl"), "transport", "route", "method", "status", "error.code")
}

// first adds the first line of each kind, which is what the members say.
func (x *signals) first(t *testing.T, pattern string, members ...string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			key := filepath.Base(path)
			for _, member := range members {
				var value any = object(t, line)
				for part := range strings.SplitSeq(member, ".") {
					of, _ := value.(map[string]any)
					value = of[part]
				}
				if value != nil {
					key += fmt.Sprintf(" %s=%v", member, value)
				}
			}
			if _, ok := x.lines[key]; !ok {
				line = strings.ReplaceAll(varying.ReplaceAllString(strings.TrimSpace(line), "$1$2$3…"), strconv.Quote(x.version), `"…"`)
				if fixed := withoutChance(line); fixed != line { // times and durations are shorter now and then
					line = regexp.MustCompile(`("bytes_(?:in|out)":)\d+`).ReplaceAllString(fixed, "$1…")
				}
				x.lines[key] = "  " + line
			}
		}
	}
}

// object is a line of JSON.
func object(t *testing.T, line string) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &fields); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return fields
}
