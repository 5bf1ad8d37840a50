// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"encoding/binary"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/longrunning"
	"github.com/outrigger-mcp/outrigger/internal/seal"
)

// maxTaskID is the maximum length of a task's id (outrigger.v1.Task), and so of a handle.
const maxTaskID = 2048

// encodeHandle is the plaintext of a handle. A mask that would make an id of more than what the contract admits is left out.
func encodeHandle(h longrunning.Handle) ([]byte, error) {
	plain, err := h.Encode()
	if err == nil && h.Fields != "" && seal.SealedLen(len(plain)) > maxTaskID {
		h.Fields, h.IsMaskLost = "", true
		plain, err = h.Encode()
	}
	return plain, err
}

// nativeResult is what the sealed id of a native backend's task says about its result: messages about tasks do not. It is empty for a
// tool without an output schema, whose caller wants all of the result.
type nativeResult struct {
	// digest identifies the tool.
	digest []byte
	// isReduced is set where the caller does not want all of the result. wanted says how much, and isMaskLost that its mask was too
	// long for the id.
	isReduced, isMaskLost bool
	wanted                fit.Wanted
}

// toolDigestSize is the length of a tool digest. Sealed ids have little room to spare, and
// among a thousand tools two have the same digest once in 500 million catalogs.
const toolDigestSize = 6

// toolDigest identifies a tool.
func toolDigest(t *catalog.Tool) []byte {
	digest := seal.Digest([]byte("tool of a task"), []byte(t.Name))
	return digest[:toolDigestSize]
}

// Bits of the flags in the plaintext of a sealed task id, below the budget.
const (
	wantedForModel = 1 << iota
	wantedMaskLost
	wantedBits = iota
)

// encodeTask returns the plaintext of a sealed task id: the backend's id, which the contract restricts to visible ASCII, and if there is
// something to say about the result a zero byte and the tool's digest. If the result is to be reduced, the flags with the budget follow
// as a varint, and the mask, unless the id would be longer than the contract admits.
func encodeTask(id string, of nativeResult) []byte {
	out := []byte(id)
	if of.digest == nil {
		return out
	}
	out = append(append(out, 0), of.digest...)
	if !of.isReduced {
		return out
	}
	flags := uint64(of.wanted.Budget) << wantedBits
	if of.wanted.ForModel {
		flags |= wantedForModel
	}
	fields := of.wanted.Fields
	if fields != "" && seal.SealedLen(len(out)+binary.MaxVarintLen64+len(fields)) > maxTaskID {
		fields = ""
		flags |= wantedMaskLost
	}
	return append(binary.AppendUvarint(out, flags), fields...)
}

// parseTask undoes encodeTask.
func parseTask(plain []byte) (id string, of nativeResult) {
	first, rest, _ := bytes.Cut(plain, []byte{0})
	if len(rest) < toolDigestSize {
		return string(first), of
	}
	of.digest, rest = rest[:toolDigestSize], rest[toolDigestSize:]
	flags, n := binary.Uvarint(rest)
	if n <= 0 {
		return string(first), of
	}
	of.isReduced, of.isMaskLost = true, flags&wantedMaskLost != 0
	of.wanted = fit.Wanted{Fields: string(rest[n:]), Budget: int(flags >> wantedBits), ForModel: flags&wantedForModel != 0}
	return string(first), of
}
