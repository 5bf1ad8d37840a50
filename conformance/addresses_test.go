// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestANameWithSeveralAddresses has the real binary look a name up in a hosts file that only it sees: calls go to all addresses,
// none is lost when one goes, and one that is new in the name gets calls too.
func TestANameWithSeveralAddresses(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "unshare", "--mount", "true").Run(); err != nil {
		t.Skipf("it takes root, to give the sidecar its own hosts file: %v", err)
	}
	dir := t.TempDir()
	hosts, binary := filepath.Join(dir, "hosts"), filepath.Join(dir, "sidecar")
	_, port, _ := net.SplitHostPort(testkit.Reserved(t))
	host := func(i int) string { return fmt.Sprintf("127.0.0.%d", 2+i) }
	var labs []*peer.Service
	for i := range 4 {
		labs = append(labs, peer.GRPCSetup(t, peer.Setup{Address: net.JoinHostPort(host(i), port)}))
	}
	name := func(of ...int) {
		var text strings.Builder
		for _, i := range of {
			fmt.Fprintf(&text, "%s shop.test\n", host(i))
		}
		// The same file, because a mount is of a file and not of its path.
		if err := os.WriteFile(hosts, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name(0, 1, 2)
	script := fmt.Sprintf("#!/bin/sh\nexec unshare --mount sh -c 'mount --bind %s /etc/hosts && exec %s \"$@\"' sidecar \"$@\"\n", hosts, built.binary)
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "sidecar.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "backend:\n  url: dns:///shop.test:%s\n  balance: {resolve_interval: 1s}\n", port), 0o600); err != nil {
		t.Fatal(err)
	}
	server := sidecar.ServeReady(t, binary, "--config", config)
	edge := caller.Find(t, "rpc")
	agent := edge.Dial(t, target(server))
	defer agent.Close()
	calls := func(n int) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				call, want := echoCall(edge, false, i, n)
				checkEcho(t, edge, call, want, caller.One(t.Context(), agent, call))
			})
		}
		all.Wait()
	}
	testkit.Until(t, "all three addresses get calls", func() bool {
		calls(30)
		return labs[0].Calls() > 0 && labs[1].Calls() > 0 && labs[2].Calls() > 0
	})
	labs[0].Stop()
	calls(100)
	testkit.Until(t, "the probe names the address that is away", func() bool {
		_, text := server.Probe(t, "/readyz?verbose")
		return strings.Contains(text, host(0)+":"+port)
	})
	name(1, 2, 3)
	testkit.Until(t, "a new address gets calls", func() bool {
		calls(10)
		return labs[3].Calls() > 0
	})
	_, text := server.Probe(t, "/readyz?verbose")
	if strings.Contains(text, host(0)+":") {
		t.Errorf("an address that the name does not have any more is still there: %s", text)
	}
}
