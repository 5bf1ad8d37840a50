// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2/toxics"
)

// silenceType is the name by which toxiproxy knows silence.
const silenceType = "outrigger_silence"

// silence is a toxic that lets the connections that there are go silent for ever,
// while new ones work: what is left of a connection when a firewall, a load
// balancer or a machine in between has forgotten it. Toxiproxy's own timeout
// concerns all connections alike.
type silence struct {
	// sealed is set once all connections that there were have it.
	sealed atomic.Bool
}

// NewState implements toxics.StatefulToxic: what is kept with each connection is
// whether it is silent.
func (s *silence) NewState() any { return !s.sealed.Load() }

// Pipe implements toxics.Toxic.
func (s *silence) Pipe(stub *toxics.ToxicStub) {
	if silent, _ := stub.State.(bool); !silent {
		new(toxics.NoopToxic).Pipe(stub)
		return
	}
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
		}
	}
}

// Cleanup implements toxics.CleanupToxic. A connection of which bytes were lost
// can only be closed.
func (s *silence) Cleanup(stub *toxics.ToxicStub) {
	if silent, _ := stub.State.(bool); silent {
		stub.Close()
	}
}
