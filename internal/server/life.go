// SPDX-License-Identifier: Apache-2.0

package server

import (
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
)

// What calls depend on, as probes name it.
const (
	needCatalog = "catalog"
	// needBackend is the circuit breaker, needAnswer the answer to the sidecar's own questions.
	needBackend = "backend"
	needAnswer  = "backend connection"
)

// newLife returns the machine that knows what the process is doing.
func newLife(all, milestones *zap.Logger) *lifecycle.Machine {
	return lifecycle.New(func(c lifecycle.Change) {
		log := milestones.Info
		if c.To == lifecycle.NotReady {
			log = all.Warn
		}
		log("lifecycle", zap.Stringer("from", c.From), zap.Stringer("to", c.To), zap.String("reason", c.Why))
	}, needCatalog)
}
