// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync/atomic"
)

// ID is the id of an invocation or a change: unique among all lines of all processes.
type ID struct{ number uint64 }

// idBytes is the size of the random part of ids: no two of 2^32 processes draw the same
// with a probability worth a thought.
const idBytes = 12

// ids makes the ids of one process: a random prefix, and a number.
type ids struct {
	prefix string
	last   atomic.Uint64
}

func newIDs(deterministic bool) *ids {
	var raw [idBytes]byte
	if !deterministic {
		_, _ = rand.Read(raw[:]) // it never fails
	}
	return &ids{prefix: hex.EncodeToString(raw[:]) + "-"}
}

func (i *ids) next() ID { return ID{i.last.Add(1)} }

func (i *ids) append(dst []byte, id ID) []byte {
	return strconv.AppendUint(append(dst, i.prefix...), id.number, 10)
}
