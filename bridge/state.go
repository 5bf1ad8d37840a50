// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"encoding/json"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// purposeState is the purpose of a sealed state: what was sealed for another is none.
const purposeState = "request-state"

// state is what a caller brings back between the rounds of one request: what
// the backend wants to see again, and how far the sidecar's own question is.
type state struct {
	// asked: this round answers the sidecar's own question. confirmed: an
	// earlier round has.
	asked, confirmed bool
	// backend is the backend's own state, which may be empty.
	backend []byte
	// asker is the span of the request that asked; not valid without tracing.
	asker telemetry.Context
}

// The first byte of a sealed state says what it has. Bits that are not set are of parts that are not there: so states of
// versions without them open.
const (
	stateAsked byte = 1 << iota
	stateConfirmed
	// stateTraced: the asker comes next, before the backend's own state.
	stateTraced
)

func (s state) encode() []byte {
	var flags byte
	if s.asked {
		flags |= stateAsked
	}
	if s.confirmed {
		flags |= stateConfirmed
	}
	if !s.asker.IsValid() {
		return append([]byte{flags}, s.backend...)
	}
	return append(telemetry.AppendContext([]byte{flags | stateTraced}, s.asker), s.backend...)
}

// decodeState undoes encode. It reports false for what encode does not make.
func decodeState(plain []byte) (state, bool) {
	if len(plain) == 0 {
		return state{}, false
	}
	s := state{asked: plain[0]&stateAsked != 0, confirmed: plain[0]&stateConfirmed != 0, backend: plain[1:]}
	if plain[0]&stateTraced != 0 {
		if len(s.backend) < telemetry.ContextSize {
			return state{}, false
		}
		s.asker, s.backend = telemetry.ReadContext(s.backend[:telemetry.ContextSize]), s.backend[telemetry.ContextSize:]
	}
	return s, true
}

// requestDigest ties a state to a request: its operation, what it names, and
// its arguments, whatever way they are written.
func requestDigest(operation Op, name string, arguments []byte) [32]byte {
	return keys.Digest(keys.Label(operation.String()), []byte(name), sortedJSON(arguments))
}

// sortedJSON writes JSON with sorted members and without white space; numbers
// keep their digits. A client may write the same arguments in another order
// when it repeats them. Text that is no JSON stays as it is.
func sortedJSON(text []byte) []byte {
	if len(text) == 0 {
		return emptyObject
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return text
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		return text
	}
	return sorted
}

// emptyObject represents arguments that were not sent.
var emptyObject = []byte(jsontext.EmptyObject)
