// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/seal"
)

// Purposes of what is sealed: what was sealed for one is nothing for another.
const (
	purposeState  = "request-state"
	purposeCursor = "cursor"
	purposeTask   = "task"
)

// state is what a caller brings back between the rounds of one request: what
// the backend wants to see again, and how far the sidecar's own question is.
type state struct {
	// asked: this round answers the sidecar's own question. confirmed: an
	// earlier round has.
	asked, confirmed bool
	// backend is the backend's own state, which may be empty.
	backend []byte
}

// The first byte of a sealed state.
const (
	stateAsked byte = 1 << iota
	stateConfirmed
)

func (s state) encode() []byte {
	var flags byte
	if s.asked {
		flags |= stateAsked
	}
	if s.confirmed {
		flags |= stateConfirmed
	}
	return append([]byte{flags}, s.backend...)
}

// sealState seals a state for the caller and the request it belongs to. digest
// is that of the request without its answers.
func (b *Bridge) sealState(caller string, digest [32]byte, s state) ([]byte, *errmap.Error) {
	token, err := b.opts.Sealer.Seal(seal.Binding{Purpose: purposeState, Principal: caller, Digest: digest}, s.encode())
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return []byte(token), nil
}

// openState opens what the caller brought back; an empty one is the state of a
// first round. A state that settles the sidecar's own question counts once on
// this replica; see decision 0009.
func (b *Bridge) openState(caller string, digest [32]byte, token []byte, member string) (state, *errmap.Error) {
	if len(token) == 0 {
		return state{}, nil
	}
	plain, until, err := b.opts.Sealer.OpenUntil(seal.Binding{Purpose: purposeState, Principal: caller, Digest: digest}, string(token))
	switch {
	case errors.Is(err, seal.ErrExpired):
		return state{}, staleState(member, "the request state has expired; call again without it")
	case err != nil || len(plain) == 0:
		return state{}, staleState(member, "the request state does not belong to this request; return it unchanged, with the same parameters")
	}
	s := state{asked: plain[0]&stateAsked != 0, confirmed: plain[0]&stateConfirmed != 0, backend: plain[1:]}
	if (s.asked || s.confirmed) && !b.spent.Spend(string(token), until) {
		return state{}, staleState(member, "the request state was used before; call again without it")
	}
	return s, nil
}

func staleState(member, message string) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{Path: member, Keyword: "state", Message: message}),
		errmap.Message("Invalid params: "+message))
}

// requestDigest ties a state to a request: its operation, what it names, and
// its arguments, whatever way they are written.
func requestDigest(operation, name string, arguments []byte) [32]byte {
	return seal.Digest([]byte(operation), []byte(name), sortedJSON(arguments))
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

// sealInput replaces the backend's own state in a question by a sealed one.
func (b *Bridge) sealInput(caller string, digest [32]byte, confirmed bool, in *outriggerv1.InputRequired) *errmap.Error {
	if len(in.GetRequestState()) == 0 && !confirmed {
		return nil
	}
	sealed, err := b.sealState(caller, digest, state{confirmed: confirmed, backend: in.GetRequestState()})
	if err != nil {
		return err
	}
	in.RequestState = sealed
	return nil
}
