// SPDX-License-Identifier: Apache-2.0

package server

import (
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
)

// needCatalog is what calls depend on besides the backend, as probes name it.
const needCatalog = "catalog"

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
