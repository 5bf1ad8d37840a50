// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/peer"
)

// interopCases are those of grpc-go's interop client that run.
func interopCases() []string {
	return []string{
		"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
		"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response", "status_code_and_message",
		"special_status_message", "custom_metadata", "unimplemented_method", "unimplemented_service",
		"rpc_soak", "channel_soak", "orca_per_rpc", "orca_oob",
	}
}

// interopLeftOut are those that do not, with the reason. grpc-go's own script leaves out
// the same ones.
func interopLeftOut() map[string]string {
	const google = "needs credentials that Google issues"
	return map[string]string{
		"compute_engine_creds":               google,
		"service_account_creds":              google,
		"jwt_token_creds":                    google,
		"per_rpc_creds":                      google,
		"oauth2_auth_token":                  google,
		"google_default_credentials":         google,
		"compute_engine_channel_credentials": google,
		"pick_first_unary":                   "needs a server that tells its id, and grpc-go's does not",
	}
}

// interopTime bounds one case.
const interopTime = 90 * time.Second

// TestGRPCInterop runs grpc-go's interop client through the sidecar against its interop
// server.
func TestGRPCInterop(t *testing.T) {
	t.Parallel()
	client := buildInterop(t)
	args := []string{
		"--backend", "grpc://" + peer.Interop(t), "--descriptors", peer.DescriptorSet(t, peer.InteropFiles()...),
		"--metadata-in", "x-grpc-test-echo-*",
		"--metadata-out", "x-grpc-test-echo-*,endpoint-load-metrics-bin",
	}
	all := serve(t, args...)
	// A service that the backend lacks is refused by the backend, and one that the
	// catalog lacks by the sidecar.
	without := serve(t, append(args, "--exclude", "grpc.testing.UnimplementedService.*")...)
	for _, name := range interopCases() {
		t.Run(name, func(t *testing.T) { interopCase(t, client, all.Addr(), name) })
	}
	t.Run("unimplemented_service, which is in no catalog", func(t *testing.T) {
		interopCase(t, client, without.Addr(), "unimplemented_service")
	})
}

func buildInterop(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "interop")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", out, "./cmd/interop").CombinedOutput(); err != nil {
		t.Fatalf("build the interop client: %v\n%s", err, text)
	}
	return out
}

func interopCase(t *testing.T, client, addr, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), interopTime)
	defer cancel()
	if text, err := exec.CommandContext(ctx, client, addr, name).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestGRPCInteropCases fails where grpc-go's client has a case that is neither run nor
// named above, and where a name is none of its cases.
func TestGRPCInteropCases(t *testing.T) {
	t.Parallel()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "google.golang.org/grpc").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "interop", "client", "client.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, dispatch, found := strings.Cut(string(source), "switch *testCase {")
	if !found {
		t.Fatal("the client's list of cases is elsewhere")
	}
	wanted := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\tcase "([a-z0-9_]+)":$`).FindAllStringSubmatch(dispatch, -1) {
		wanted[m[1]] = true
	}
	named := interopLeftOut()
	for _, name := range interopCases() {
		if named[name] != "" {
			t.Errorf("%s runs and is left out", name)
		}
		named[name] = "runs"
	}
	for name := range wanted {
		if named[name] == "" {
			t.Errorf("%s is neither run nor named", name)
		}
	}
	for name := range named {
		if !wanted[name] {
			t.Errorf("grpc-go has no case %s", name)
		}
	}
}
