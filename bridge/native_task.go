// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"encoding/binary"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/seal"
)

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

// nativeResultOf is what the id of the task of a call has to say.
func (b *Bridge) nativeResultOf(c *toolCall) nativeResult {
	out := nativeResult{isReduced: c.mask != nil || b.budget(c) > 0}
	if out.isReduced {
		out.wanted = fit.Wanted{Budget: c.req.Wanted.Budget, ForModel: c.req.Wanted.ForModel}
		if c.mask != nil {
			out.wanted.Fields = c.req.Wanted.Fields
		}
	}
	if out.isReduced || c.tool.HasOutput() {
		out.digest = toolDigest(c.tool)
	}
	return out
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

// settleTask validates the result of a backend's task against the current output schema of its tool, like the result of a call, and
// reduces it as that call wanted it. An invalid result fails the task, like a task of the sidecar itself. If the tool is gone, nothing
// is done.
func (b *Bridge) settleTask(req *Request, cat *catalog.Catalog, of *nativeResult, t *outriggerv1.Task) {
	if len(of.digest) == 0 || t.GetResult() == nil {
		return
	}
	for _, tool := range cat.All() {
		if tool.Native && bytes.Equal(toolDigest(tool), of.digest) {
			own := req.copied()
			own.Wanted = of.wanted
			c := &toolCall{req: own, tool: tool, catalog: cat, isFetch: true}
			if of.isMaskLost {
				c.note(fit.MaskLost)
			}
			c.maskAgain()
			b.settleTaskOf(c, t)
			return
		}
	}
}

// settleTaskOf is settleTask where the tool is known.
func (b *Bridge) settleTaskOf(c *toolCall, t *outriggerv1.Task) {
	if t.GetResult() == nil {
		return
	}
	failed := declaredData(c.tool, t.GetResult())
	if failed == nil {
		failed = b.reduceNative(c, t.GetResult())
	}
	if failed != nil {
		failed.Tool = c.tool.Name
		endWith(t, failed)
	}
}
