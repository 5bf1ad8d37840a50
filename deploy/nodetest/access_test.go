// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/outrigger-mcp/outrigger/deploy/node"
)

// token is the secret of the only caller.
var token = rand.Text()

// makeAccess makes the Secrets that the manifests ask their users for, and the
// service account of pods that are made without the one of their Deployment.
func makeAccess(t *testing.T, n *node.Node) {
	t.Helper()
	makeAccessIn(t, n, namespace, "fleet")
}

// makeAccessIn does so in a namespace, for a service account of any name.
func makeAccessIn(t *testing.T, n *node.Node, namespace, account string) {
	t.Helper()
	sum := sha256.Sum256([]byte(token))
	callers := fmt.Sprintf("callers:\n  - name: load\n    token_sha256: [%s]\n    tools: [\"*\"]\n", hex.EncodeToString(sum[:]))
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	for name, data := range map[string]map[string]any{
		"outrigger-callers": {"callers.yaml": callers},
		// What runs with it reaches servers that ask for no key.
		"outrigger-nats":  {"user.nk": "not used\n"},
		"outrigger-state": {"state.key": base64.StdEncoding.EncodeToString(key) + "\n"},
	} {
		apply(t, n, object{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": namespace}, "stringData": data,
		}, false)
	}
	apply(t, n, object{
		"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": account, "namespace": namespace},
		"automountServiceAccountToken": false,
	}, false)
}
