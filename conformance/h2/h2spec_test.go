// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// TestH2Spec: every listener passes all of h2spec.
func TestH2Spec(t *testing.T) {
	t.Parallel()
	needsPeers(t)
	for _, tr := range transports(t) {
		args := []string{}
		if tr.tls != nil {
			args = append(args, "--admin-tls-cert", tr.tls.pair.CertFile, "--admin-tls-key", tr.tls.pair.KeyFile)
		}
		server := tr.serve(t, args...)
		for name, address := range map[string]string{"main": server.Addr(), "admin": strings.TrimPrefix(server.AdminURL(""), "http://"), "health": healthOf(t, server)} {
			secured := tr.tls != nil && name != "health" // which has no TLS
			if tr.tls != nil && !secured {
				continue
			}
			t.Run(name+", "+tr.name, func(t *testing.T) {
				t.Parallel()
				host, port, err := net.SplitHostPort(address)
				if err != nil {
					t.Fatal(err)
				}
				args := []string{"--host", host, "--port", port, "--timeout", "3", "generic", "hpack", "http2"}
				if secured {
					args = append(args, "--tls", "--insecure")
				}
				ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
				defer cancel()
				out, err := exec.CommandContext(ctx, *h2spec, args...).CombinedOutput()
				text := string(out)
				if err != nil || !strings.Contains(text, " 0 skipped, 0 failed") {
					_, failures, _ := strings.Cut(text, "Failures:")
					t.Errorf("h2spec %v: %v\n%s", args, err, failures)
				}
			})
		}
	}
}

func healthOf(t *testing.T, server *sidecar.Server) string {
	t.Helper()
	entry := server.Log(t, "listening on health", func(e sidecar.Entry) bool {
		return e.Message == "listening" && e.Fields["listener"] == "health"
	})
	address, _ := entry.Fields["addr"].(string)
	return address
}
