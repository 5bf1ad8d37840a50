// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// TestKindsOfBackends puts the sidecar in front of the same service in every
// form in which it can be reached.
func TestKindsOfBackends(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) []string{
		"gRPC": func(t *testing.T) []string { t.Helper(); return []string{"--backend", peer.GRPC(t).URL} },
		"probed gRPC": func(t *testing.T) []string {
			t.Helper()
			return []string{"--backend", "http" + peer.GRPC(t).URL[len("grpc"):]}
		},
		"gRPC over TLS": func(t *testing.T) []string {
			t.Helper()
			lab := peer.GRPCTLS(t)
			return []string{"--backend", lab.URL, "--backend-ca", lab.CA}
		},
		"gRPC on a Unix socket": func(t *testing.T) []string { t.Helper(); return []string{"--backend", peer.GRPCUnix(t).URL} },
		"Connect only": func(t *testing.T) []string {
			t.Helper()
			return []string{"--backend", peer.ConnectOnly(t).URL, "--descriptors", labDescriptors(t)}
		},
		"probed Connect": func(t *testing.T) []string {
			t.Helper()
			return []string{"--backend", peer.ConnectOnly(t).URL[len("connect+"):], "--descriptors", labDescriptors(t)}
		},
		"gRPC-Web only": func(t *testing.T) []string {
			t.Helper()
			return []string{"--backend", peer.GRPCWebOnly(t).URL, "--descriptors", labDescriptors(t)}
		},
		"probed gRPC-Web": func(t *testing.T) []string {
			t.Helper()
			return []string{"--backend", peer.GRPCWebOnly(t).URL[len("grpcweb+"):], "--descriptors", labDescriptors(t)}
		},
		"the demo outside":  func(t *testing.T) []string { t.Helper(); return []string{"--backend", peer.Demo(t).URL} },
		"the demo embedded": func(t *testing.T) []string { t.Helper(); return []string{"--demo"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, start(t)...)
			for _, edgeName := range []string{"rpc", "mcp-modern", "tool-grpc-go", "typed-connect", "typed-grpc-go"} {
				edge := caller.Find(t, edgeName)
				agent := edge.Dial(t, target(server))
				call, want := echoCall(edge, false, 1, 2)
				checkEcho(t, edge, call, want, caller.One(t.Context(), agent, call))
				agent.Close()
			}
		})
	}
}

func labDescriptors(t *testing.T) string {
	t.Helper()
	return peer.DescriptorSet(t, demov1.File_outrigger_demo_v1_lab_proto)
}

// TestUnknownAuthority does not trust a backend whose certificate is signed by an
// unknown CA: not ready, with the reason.
func TestUnknownAuthority(t *testing.T) {
	t.Parallel()
	lab := peer.GRPCTLS(t)
	server := sidecar.Serve(t, built.binary, "--backend", lab.URL)
	testkit.Until(t, "/readyz names the certificate", func() bool {
		status, body := server.Probe(t, "/readyz?verbose")
		return status == 503 && strings.Contains(body, "certificate")
	})
	if lab.Calls() != 0 {
		t.Error("the backend was called")
	}
}
