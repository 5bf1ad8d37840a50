// SPDX-License-Identifier: Apache-2.0

package task

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/longrunning"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// Ref is a task behind an id that a caller was given: one of the sidecar, one of a native backend, or an operation of the
// backend. The ids of the last two are sealed, so that any replica can open them, for their caller alone.
type Ref struct {
	// ID is the id by which the sidecar or the native backend knows the task.
	ID string
	// Native is set for a task of a native backend: how its result is settled.
	Native *NativeResult
	// Operation is set for an operation.
	Operation *longrunning.Handle
}

// Key is the id of a task on the change feed. backend is the name of the native backend that has it, of several.
func (r Ref) Key(backend string) string {
	if r.Native != nil {
		return nativeKey(backend, r.ID)
	}
	return r.ID
}

// nativeKey is the id on the change feed of a task of a native backend: two of them may use the same one.
func nativeKey(backend, id string) string {
	if backend == "" {
		return sealedPrefix + id
	}
	return sealedPrefix + backend + "\x00" + id
}

const (
	// sealedPrefix begins every sealed id, and no id of the sidecar's own tasks.
	sealedPrefix = "v1."
	// refTTL is how long a sealed id can be used where the task says nothing: as long as a task of the sidecar may be
	// remembered. How long an operation is kept is the backend's decision.
	refTTL = 7 * 24 * time.Hour
	// maxID is the maximum length of a task's id (outrigger.v1.Task), and so of a handle.
	maxID = 2048
)

func nativeBinding(caller string, ttl time.Duration) keys.Binding {
	return keys.Binding{Purpose: "task", Principal: caller, TTL: ttl}
}

func operationBinding(caller string) keys.Binding {
	return keys.Binding{Purpose: "operation", Principal: caller, TTL: refTTL}
}

// OpenRef returns the task that an id represents for a caller. A sealed id of another caller, an expired one and one that is
// none are the same. It does not say whether the task still exists.
func OpenRef(s *keys.Sealer, caller, id string) (Ref, bool) {
	if !strings.HasPrefix(id, sealedPrefix) {
		return Ref{ID: id}, true
	}
	if plain, err := s.Open(operationBinding(caller), id); err == nil {
		h, err := longrunning.ParseHandle(plain)
		return Ref{Operation: &h}, err == nil
	}
	plain, err := s.Open(nativeBinding(caller, 0), id)
	if err != nil {
		return Ref{}, false
	}
	own, of := parseNative(plain)
	return Ref{ID: own, Native: &of}, true
}

// OpenArguments is OpenRef for the handle of an operation in the arguments of a call, which is returned too.
func OpenArguments(s *keys.Sealer, caller string, arguments []byte) (ref Ref, token string, ok bool) {
	raw, _ := jsontext.Lookup(arguments, catalog.HandleArgument)
	token, _ = jsontext.Text(raw)
	ref, ok = OpenRef(s, caller, token)
	return ref, token, ok && ref.Operation != nil
}

// Begun returns the operation that a call of a tool begins. It has no name yet.
func Begun(tool string, now time.Time, wanted content.Wanted) Ref {
	return Ref{Operation: &longrunning.Handle{
		Tool: tool, Created: now.Truncate(time.Millisecond), Fields: wanted.Fields, Budget: wanted.Budget, ForModel: wanted.ForModel,
	}}
}

// Wanted is how much of its result the call wanted that began an operation.
func (r Ref) Wanted() content.Wanted {
	return content.Wanted{Fields: r.Operation.Fields, Budget: r.Operation.Budget, ForModel: r.Operation.ForModel}
}

// SealNative replaces the id of a native backend's task by a sealed one.
func SealNative(s *keys.Sealer, caller string, t *outriggerv1.Task, of *NativeResult) *errmap.Error {
	ttl := refTTL
	if t.GetTtl() != nil {
		ttl = min(ttl, time.Until(t.GetCreatedAt().AsTime().Add(t.GetTtl().AsDuration())))
	}
	token, err := s.Seal(nativeBinding(caller, max(ttl, time.Second)), encodeNative(t.GetTaskId(), of))
	if err != nil {
		return errmap.Wrap(errmap.InternalError, err)
	}
	t.TaskId = token
	return nil
}

// sealOperation seals what any replica needs to go on with an operation. A mask that would make too long an id is left out.
func sealOperation(s *keys.Sealer, caller string, h longrunning.Handle) (string, *errmap.Error) {
	plain, err := h.Encode()
	if err == nil && h.Fields != "" && keys.SealedLen(len(plain)) > maxID {
		h.Fields, h.IsMaskLost = "", true
		plain, err = h.Encode()
	}
	if err != nil {
		return "", errmap.Wrap(errmap.InvalidToolOutput, err, errmap.Message("Invalid tool output: "+strings.TrimPrefix(err.Error(), "longrunning: ")))
	}
	token, err := s.Seal(operationBinding(caller), plain)
	if err != nil {
		return "", errmap.Wrap(errmap.InternalError, err)
	}
	return token, nil
}

// Native returns a copy of a native backend's task with the id that the change feed uses for it, and with its error redacted.
func Native(backend string, t *outriggerv1.Task) *outriggerv1.Task {
	out, _ := proto.Clone(t).(*outriggerv1.Task)
	out.TaskId = nativeKey(backend, t.GetTaskId())
	Redact(out)
	return out
}

// NativeID returns the backend's own id of a task, given the one that the change feed uses. It reports false for a task of the
// sidecar, and of another backend.
func NativeID(backend, key string) (string, bool) {
	return strings.CutPrefix(key, nativeKey(backend, ""))
}

// Redact redacts what went wrong with a backend's task, as that of a call is.
func Redact(t *outriggerv1.Task) {
	if failed := t.GetResult().GetError(); failed != nil {
		failed.ErrorMessage = errmap.Redact(failed.GetErrorMessage())
	}
	if failed := t.GetError(); failed != nil {
		failed.Message = errmap.Redact(failed.GetMessage())
	}
}

// NativeResult is what the sealed id of a native backend's task says about its result: messages about tasks do not. It is empty for a
// tool without an output schema, whose caller wants all of the result.
type NativeResult struct {
	// Digest identifies the tool: see [ToolDigest].
	Digest []byte
	// IsReduced is set where the caller does not want all of the result. Wanted says how much, and IsMaskLost that its mask was too
	// long for the id.
	IsReduced, IsMaskLost bool
	Wanted                content.Wanted
	// Address is that of the server that has the task, of a backend with many addresses; empty for others.
	Address string
}

// toolDigestSize is the length of a tool digest. Sealed ids have little room to spare, and
// among a thousand tools two have the same digest once in 500 million catalogs.
const toolDigestSize = 6

// ToolDigest identifies a tool by its name, and by the backend that has it, of several: the name may go to another one.
func ToolDigest(tool *catalog.Tool) []byte {
	parts := [][]byte{[]byte("tool of a task"), []byte(tool.Name)}
	if tool.Method != nil && tool.Method.Backend != "" {
		parts = append(parts, []byte(tool.Method.Backend))
	}
	digest := keys.Digest(parts...)
	return digest[:toolDigestSize]
}

// Bits of the flags in the plaintext of a sealed task id, below the budget.
const (
	wantedForModel = 1 << iota
	wantedMaskLost
	wantedBits = iota
)

// encodeNative returns the plaintext of a sealed task id: the backend's id, which the contract restricts to visible ASCII, and if there is
// something to say about the result a zero byte and the tool's digest. The address of the server that has the task, if there is one, comes
// before them between two zero bytes. If the result is to be reduced, the flags with the budget follow
// as a varint, and the mask, unless the id would be longer than the contract admits.
func encodeNative(id string, of *NativeResult) []byte {
	out := []byte(id)
	if of.Address != "" && keys.SealedLen(len(id)+len(of.Address)+2+1+toolDigestSize+binary.MaxVarintLen64) <= maxID {
		out = append([]byte("\x00"+of.Address+"\x00"), id...)
	}
	if of.Digest == nil {
		return out
	}
	out = append(append(out, 0), of.Digest...)
	if !of.IsReduced {
		return out
	}
	flags := uint64(of.Wanted.Budget) << wantedBits
	if of.Wanted.ForModel {
		flags |= wantedForModel
	}
	fields := of.Wanted.Fields
	if fields != "" && keys.SealedLen(len(out)+binary.MaxVarintLen64+len(fields)) > maxID {
		fields = ""
		flags |= wantedMaskLost
	}
	return append(binary.AppendUvarint(out, flags), fields...)
}

// parseNative undoes encodeNative.
func parseNative(plain []byte) (id string, of NativeResult) {
	first, rest, _ := bytes.Cut(plain, []byte{0})
	if len(first) == 0 && len(rest) > 0 {
		address, own, _ := bytes.Cut(rest, []byte{0})
		of.Address = string(address)
		first, rest, _ = bytes.Cut(own, []byte{0})
	}
	if len(rest) < toolDigestSize {
		return string(first), of
	}
	of.Digest, rest = rest[:toolDigestSize], rest[toolDigestSize:]
	flags, n := binary.Uvarint(rest)
	if n <= 0 {
		return string(first), of
	}
	of.IsReduced, of.IsMaskLost = true, flags&wantedMaskLost != 0
	of.Wanted = content.Wanted{Fields: string(rest[n:]), Budget: int(flags >> wantedBits), ForModel: flags&wantedForModel != 0}
	return string(first), of
}
