// SPDX-License-Identifier: Apache-2.0

package front

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
)

// TestGatesInForce: what is not configured follows from what is.
func TestGatesInForce(t *testing.T) {
	t.Parallel()
	cfg := config.Defaults(config.Serve)
	g := newGates(cfg, zap.NewNop()).Callers
	if g.PerPeer != g.Most/2 || !g.ExemptLoopback || g.Age != time.Hour || g.Grace != 0 {
		t.Errorf("by default %+v", g)
	}
	cfg.Limits.MaxConnectionsPerPeer = new(int32(7))
	cfg.Listeners.Tls = &configv1.ListenerTls{ClientCaFile: "ca.pem"}
	if g = newGates(cfg, zap.NewNop()).Callers; g.PerPeer != 7 || g.ExemptLoopback || g.Grace != certificateGrace {
		t.Errorf("with certificates and a bound for peers %+v", g)
	}
	core, logs := observer.New(zap.InfoLevel)
	cfg.Limits.MaxConnections = new(int32(1 << 20))
	if newGates(cfg, zap.New(core)); logs.Len() > 1 {
		t.Errorf("%v", logs.All())
	}
	for _, note := range logs.All() {
		if !strings.Contains(note.Message, "--max-connections") || note.ContextMap()["open_files"] == nil {
			t.Errorf("%s %v", note.Message, note.ContextMap())
		}
	}
}
