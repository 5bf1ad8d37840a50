// SPDX-License-Identifier: Apache-2.0

// Package rig starts what is observed and what observes: the real sidecar in
// front of the demo service, a collector and Prometheus, all on loopback.
//
// Everything that it starts has an owner who stops it. It is for tests and for
// the observe command, not for production.
package rig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/process"
)

// testBinary names a sidecar that is built already.
const testBinary = "OUTRIGGER_TEST_BINARY"

// Build builds the sidecar of this repository into dir and returns its path, or that of the variable OUTRIGGER_TEST_BINARY.
func Build(ctx context.Context, dir string) (string, error) {
	if path := os.Getenv(testBinary); path != "" {
		return path, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "sidecar")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, "./cmd/sidecar") //nolint:gosec // a folder of the caller's own
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the sidecar: %w\n%s", err, text)
	}
	return out, nil
}

// Root returns the folder of the repository, seen from the current one.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "sidecar")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find cmd/sidecar: %w", os.ErrNotExist)
		}
	}
}

// Callers are the names of the callers that the rig's sidecars know. [Token] has their tokens.
func Callers() []string { return []string{"planner", "night-shift", "guest"} }

// Token returns the token of a caller.
func Token(caller string) string { return "token-of-" + caller + "-for-the-rig" }

// Sidecar is a running sidecar.
type Sidecar struct {
	*process.Process

	// URL is the main listener's, Admin the admin listener's.
	URL, Admin string
}

// configuration makes every part of the sidecar work that has metrics: classes of tools and callers, policy rules, an audit
// trail, run records. Its limits are low, so that a small load meets them.
const configuration = `
timeout: 1s
access:
  tokens_file: callers.yaml
  policy_file: policy.yaml
limits:
  max_concurrent_calls: 16
  max_queued_calls: 48
  max_queue_wait: 300ms
  caller_rate: {per_second: 60, burst: 120}
  tool_classes:
    - {name: desk, tools: ["fleet.*"], weight: 2, reserved_calls: 2}
  caller_classes:
    - {name: agents, callers: ["caller:planner"], weight: 2, reserved_calls: 1}
resilience:
  breaker: {min_calls: 10, window: 5s}
`

// rules deny one tool to one caller.
const rules = `
rules:
  - name: no-maps-at-night
    tools: [fleet.get_map]
    effect: deny
    when: caller.name == "night-shift"
`

// StartSidecar starts a sidecar with further flags and variables in dir and waits until it serves.
func StartSidecar(ctx context.Context, binary, dir string, env []string, flags ...string) (*Sidecar, error) {
	var callers strings.Builder
	callers.WriteString("callers:\n")
	for _, name := range Callers() {
		digest := sha256.Sum256([]byte(Token(name)))
		fmt.Fprintf(&callers, "  - {name: %s, token_sha256: [\"%s\"], tools: [\"*\"]}\n", name, hex.EncodeToString(digest[:]))
	}
	for name, text := range map[string]string{"callers.yaml": callers.String(), "policy.yaml": rules, "sidecar.yaml": configuration} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("prepare the sidecar: %w", err)
		}
	}
	addrs, err := FreeAddrs(ctx, 2)
	if err != nil {
		return nil, err
	}
	s := &Sidecar{URL: "http://" + addrs[0], Admin: "http://" + addrs[1]}
	args := append([]string{
		"serve", "--config", "sidecar.yaml", "--listen", addrs[0], "--admin", addrs[1], "--audit", "audit.jsonl", "--record-dir", "runs", "--log-format", "json",
	}, flags...)
	if s.Process, err = process.Start(binary, dir, env, args...); err != nil {
		return nil, err
	}
	if err := s.Await(ctx, func(ctx context.Context) bool { _, err := Get(ctx, s.Admin+"/readyz"); return err == nil }); err != nil {
		_ = s.Stop()
		return nil, err
	}
	return s, nil
}

// Get returns the body of a page; an error if its status is not 200.
func Get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("get %s: %w", url, err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("get %s: %w", url, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil || res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("get %s: %s %w %s", url, res.Status, err, body)
	}
	return string(body), nil
}

// FreeAddrs returns loopback addresses that nothing listened on a moment ago.
func FreeAddrs(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	for range n {
		var listen net.ListenConfig
		l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = l.Close() }() // all at the end, so that they differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
