// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"bytes"
	"flag"
	"os/exec"
	"strings"
	"testing"
)

// Node and its packages are installed by the Makefile, see `make telemetry-test`.
var (
	nodeBinary  = flag.String("node", "", "`binary` of Node, for the agents written in TypeScript")
	nodeClients = flag.String("clients", "", "`folder` with conformance/clients and its packages")
)

type node struct{ binary, clients string }

func nodeOf(t *testing.T) node {
	t.Helper()
	if *nodeBinary == "" || *nodeClients == "" {
		t.Skip("needs -node and -clients, which `make telemetry-test` has")
	}
	return node{*nodeBinary, *nodeClients}
}

// run runs a script and returns what it wrote to its standard output.
func (n node) run(t *testing.T, script string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), n.binary, append([]string{script}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.clients, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, stderr.String())
	}
	return strings.TrimSpace(stdout.String())
}
