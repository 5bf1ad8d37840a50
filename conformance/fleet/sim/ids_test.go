// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"sync"
	_ "unsafe" // for go:linkname

	"github.com/nats-io/nuid"
)

// globalIDs makes the ids of nats.go. It is as old as the process, and so must begin anew with each simulation.
//
//go:linkname globalIDs github.com/nats-io/nuid.globalNUID
var globalIDs *struct {
	sync.Mutex
	*nuid.NUID
}

func resetIDs() { globalIDs.NUID = nuid.New() }
