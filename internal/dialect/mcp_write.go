// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/content/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// answerOf is the answer of an operation that leaves one in Response.Message.
func answerOf[T proto.Message](call *exchange) (T, *errmap.Error) {
	out, ok := call.resp.Message.(T)
	if !ok {
		return out, errmap.Wrap(errmap.InternalError, errors.New("the pipeline answered with another message"))
	}
	return out, nil
}

// appendCache appends how long an answer may be kept and by whom. Where the
// backend said nothing, announced says that changes are: then the contract's
// time for discovery results holds, else nothing may be kept.
func appendCache(dst []byte, cache *outriggerv1.CachePolicy, announced bool) []byte {
	ttl := time.Duration(0)
	switch {
	case cache.GetTtl() != nil:
		ttl = max(cache.GetTtl().AsDuration(), 0)
	case announced:
		ttl = listTTL * time.Millisecond
	}
	dst = append(dst, `,"ttlMs":`...)
	dst = strconv.AppendInt(dst, ttl.Milliseconds(), 10)
	return appendCacheScope(dst, cache.GetScope())
}

func appendNextCursor(dst []byte, next *string) []byte {
	if next == nil {
		return dst
	}
	dst = append(dst, `,"nextCursor":`...)
	return jsontext.AppendString(dst, *next)
}

// close closes the result of a method that both eras have. Legacy results have
// neither a type nor anything about caches.
func (h *Handler) close(call *exchange, dst []byte, from content.MetaHolder) ([]byte, *errmap.Error) {
	if call.in.Dialect == Legacy {
		return closeLegacy(dst, from, "")
	}
	return h.closeResult(dst, typeComplete, from, "")
}

// closeCached is close for a result that may be kept.
func (h *Handler) closeCached(call *exchange, dst []byte, from cacheable, announced bool) ([]byte, *errmap.Error) {
	if call.in.Dialect != Legacy {
		dst = appendCache(dst, from.GetCache(), announced)
	}
	return h.close(call, dst, from)
}

// cacheable is a message that says how long it may be kept.
type cacheable interface {
	content.MetaHolder
	GetCache() *outriggerv1.CachePolicy
}

// closeResult closes a modern result with its type and its _meta: the backend's
// own, and what the sidecar says.
func (h *Handler) closeResult(dst []byte, resultType string, from content.MetaHolder, own string) ([]byte, *errmap.Error) {
	dst = append(dst, `,"resultType":"`...)
	dst = append(append(dst, resultType...), `","_meta":`...)
	owned := h.introduction().appendServerMeta(nil)
	if own != "" {
		owned = append(append(owned, ','), own...)
	}
	dst, err := content.AppendMeta(dst, from, owned)
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	return append(dst, '}'), nil
}

// Values of resultType (MCP 2026-07-28, results; tasks extension).
const (
	typeComplete      = "complete"
	typeInputRequired = "input_required"
	typeTask          = "task"
)

// writeModernOutcome renders the outcome of a call that is more than the answer
// of a plain RPC.
func (h *Handler) writeModernOutcome(outcome *outriggerv1.ToolOutcome) ([]byte, *errmap.Error) {
	switch o := outcome.GetOutcome().(type) {
	case *outriggerv1.ToolOutcome_InputRequired:
		return h.writeInputRequired(o.InputRequired)
	case *outriggerv1.ToolOutcome_Task:
		dst, err := content.AppendNewTask([]byte{'{'}, o.Task)
		if err != nil {
			return nil, errmap.Unwritable(err)
		}
		return h.closeResult(dst, typeTask, o.Task, "")
	}
	return h.modernToolResult(nil, outcome.GetResult())
}

// modernToolResult renders a whole tool result.
func (h *Handler) modernToolResult(dst []byte, result *outriggerv1.ToolResult) ([]byte, *errmap.Error) {
	dst, err := content.AppendToolResult(append(dst, '{'), result, content.Rev20260728)
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	own, err := appendVerdict(nil, result)
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	return h.closeResult(dst, typeComplete, result, string(own))
}

// writeInputRequired renders a question to the caller's client. It is never to
// be kept, so that it says nothing about caches.
func (h *Handler) writeInputRequired(in *outriggerv1.InputRequired) ([]byte, *errmap.Error) {
	dst := []byte{'{'}
	var err error
	if len(in.GetInputRequests()) > 0 {
		dst = append(dst, `"inputRequests":`...)
		if dst, err = content.AppendInputRequests(dst, in.GetInputRequests()); err != nil {
			return nil, errmap.Unwritable(err)
		}
	}
	if len(in.GetRequestState()) > 0 {
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(dst, `"requestState":`...)
		dst = jsontext.AppendString(dst, string(in.GetRequestState()))
	}
	return h.closeResult(dst, typeInputRequired, in, "")
}

// taskMembers are the members of a task, its result included.
func (h *Handler) taskMembers(t *outriggerv1.Task) ([]byte, error) {
	var result []byte
	if t.GetResult() != nil {
		var failed *errmap.Error
		if result, failed = h.modernToolResult(nil, t.GetResult()); failed != nil {
			return nil, failed
		}
	}
	return content.AppendTask(nil, t, result)
}

func writeResources(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	got, failed := answerOf[*outriggerv1.ListResourcesResponse](call)
	if failed != nil {
		return nil, failed
	}
	dst, err := content.AppendResources([]byte(`{"resources":`), got.GetResources())
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	dst = appendNextCursor(dst, got.NextCursor)
	return h.closeCached(call, dst, got, true)
}

func writeTemplates(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	got, failed := answerOf[*outriggerv1.ListResourceTemplatesResponse](call)
	if failed != nil {
		return nil, failed
	}
	dst, err := content.AppendTemplates([]byte(`{"resourceTemplates":`), got.GetResourceTemplates())
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	dst = appendNextCursor(dst, got.NextCursor)
	return h.closeCached(call, dst, got, true)
}

func writePrompts(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	got, failed := answerOf[*outriggerv1.ListPromptsResponse](call)
	if failed != nil {
		return nil, failed
	}
	dst, err := content.AppendPrompts([]byte(`{"prompts":`), got.GetPrompts())
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	dst = appendNextCursor(dst, got.NextCursor)
	return h.closeCached(call, dst, got, h.offers.Features(call.resp.Catalog).PromptsChanged)
}

func writeContents(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	got, failed := answerOf[*outriggerv1.ResourceOutcome](call)
	if failed != nil {
		return nil, failed
	}
	if in := got.GetInputRequired(); in != nil {
		return h.writeInputRequired(in)
	}
	dst, err := content.AppendContents([]byte(`{"contents":`), got.GetResult().GetContents())
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	return h.closeCached(call, dst, got.GetResult(), false)
}

func writePromptMessages(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	got, failed := answerOf[*outriggerv1.PromptOutcome](call)
	if failed != nil {
		return nil, failed
	}
	if in := got.GetInputRequired(); in != nil {
		return h.writeInputRequired(in)
	}
	dst := []byte{'{'}
	if text := got.GetResult().GetDescription(); text != "" {
		dst = append(dst, `"description":`...)
		dst = append(jsontext.AppendString(dst, text), ',')
	}
	revision := content.Rev20260728
	if call.in.Dialect == Legacy {
		revision = call.in.revision()
	}
	dst, err := content.AppendPromptMessages(append(dst, `"messages":`...), got.GetResult().GetMessages(), revision)
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	return h.close(call, dst, got.GetResult())
}

func writeCompletion(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	got, failed := answerOf[*outriggerv1.CompleteResponse](call)
	if failed != nil {
		return nil, failed
	}
	dst, err := content.AppendCompletion([]byte(`{"completion":`), got)
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	return h.close(call, dst, got)
}

func writeTask(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	got, failed := answerOf[*outriggerv1.Task](call)
	if failed != nil {
		return nil, failed
	}
	members, err := h.taskMembers(got)
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	return h.closeResult(append([]byte{'{'}, members...), typeComplete, got, "")
}

// writeAcknowledged renders a result that only says that something was done.
func writeAcknowledged(h *Handler, _ *exchange) ([]byte, *errmap.Error) {
	dst := append([]byte(nil), `{"resultType":"complete","_meta":{`...)
	return append(h.introduction().appendServerMeta(dst), `}}`...), nil
}

// writeListen ends a stream of changes that the server ends.
func writeListen(h *Handler, call *exchange) ([]byte, *errmap.Error) {
	dst := append([]byte(nil), `{"resultType":"complete","_meta":{"`+subscriptionKey+`":`...)
	dst = append(dst, call.in.Message.ID.Raw()...)
	dst = append(dst, ',')
	return append(h.introduction().appendServerMeta(dst), `}}`...), nil
}

// appendVerdict appends the _meta member for what a result says and MCP has no
// member for. A plain success says nothing more.
func appendVerdict(dst []byte, result *outriggerv1.ToolResult) ([]byte, error) {
	if result.GetStatus() == content.StatusSuccess && result.GetExplanation() == "" {
		return dst, nil
	}
	return content.AppendResultMeta(dst, result)
}

// repairedKey is the member of a result's _meta that lists, as JSON Pointers into
// the arguments, what was decoded from a string; "" are the arguments.
const repairedKey = "dev.outrigger/repaired"

// NoteRepairs says in the _meta of a result which of the arguments were decoded. The
// result is a message from then on, whatever it was before.
func NoteRepairs(resp *bridge.Response) *errmap.Error {
	if len(resp.Repaired) == 0 {
		return nil
	}
	places, err := json.Marshal(resp.Repaired)
	if err != nil {
		return errmap.Wrap(errmap.InternalError, err)
	}
	outcome := resp.ToolOutcome()
	result := outcome.GetResult()
	meta, err := content.AppendMeta(nil, result, append([]byte(`"`+repairedKey+`":`), places...))
	if err != nil {
		return errmap.Unwritable(err)
	}
	result.MetaForm = &outriggerv1.ToolResult_MetaJson{MetaJson: meta}
	resp.Outcome, resp.Result = outcome, bridge.Payload{}
	return nil
}

// closingBrace closes a result that has no more members.
var closingBrace = []byte{'}'}

// truncation is the _meta member of a result that holds only the beginning of
// what there was; nil where it holds all.
func truncation(r *bridge.Response) []byte {
	if !r.Truncated {
		return nil
	}
	return []byte(`,"_meta":{` + truncatedMeta + `}`)
}

// truncatedMeta is that member of a result that holds only the beginning of what
// there was.
const truncatedMeta = `"` + content.ResultMetaKey + `":{"status":"` + content.StatusPartial + `"}`

// appendCacheScope appends MCP's member. Only what is said to be the same for everybody is public.
func appendCacheScope(dst []byte, scope outriggerv1.CacheScope) []byte {
	if scope == outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC {
		return append(dst, `,"cacheScope":"public"`...)
	}
	return append(dst, `,"cacheScope":"private"`...)
}

// enveloped is a result, in parts, in the reply's envelope.
func (c *exchange) enveloped(result ...[]byte) []byte {
	size := len(c.in.Message.ID.Raw()) + envelopeBytes
	for _, part := range result {
		size += len(part)
	}
	return jsonrpc.AppendCompactResult(make([]byte, 0, size), c.in.Message.ID, result...)
}

// writeCall renders the reply to a call that ended well, whole and in one buffer:
// a large result is copied once for each place where it is. tail closes the
// result.
func (h *Handler) writeCall(call *exchange, tail ...[]byte) {
	result := call.resp.Result.Bytes
	if call.quotes(h.buffers, tail...) {
		return
	}
	const around = 128 // the names and brackets around the two copies
	size := len(call.in.Message.ID.Raw()) + envelopeBytes + around + 2*len(result) + jsontext.Escapes(result) + len(call.resp.Explanation)
	for _, piece := range tail {
		size += len(piece)
	}
	dst := jsonrpc.AppendResultHead(h.buffers.Get(size), call.in.Message.ID)
	dst = appendContent(dst, result, call.resp.Explanation)
	dst = append(dst, `,"structuredContent":`...)
	dst = append(dst, result...)
	dst = append(dst, `,"isError":false`...)
	for _, piece := range tail {
		dst = append(dst, piece...)
	}
	dst = append(dst, '}')
	call.reply.body, call.reply.lender = dst, h.buffers
}

// quotes leaves the result of a large call where it is, instead of copying it twice
// into a reply, and reports whether it did.
func (call *exchange) quotes(buffers *bytepool.Pool, tail ...[]byte) bool {
	if len(call.resp.Result.Bytes) < leastQuoted {
		return false
	}
	size, ok := jsontext.QuotedLen(call.resp.Result.Bytes)
	if !ok {
		return false
	}
	const around = 256
	id := call.in.Message.ID
	dst := make([]byte, 0, len(id.Raw())+envelopeBytes+around+len(call.resp.Explanation))
	dst = append(jsonrpc.AppendResultHead(dst, id), contentHead...)
	r := &call.reply
	r.quoted.at, r.quoted.size = len(dst), size
	dst = append(closeContent(dst, call.resp.Explanation), `,"structuredContent":`...)
	r.shared.at = len(dst)
	dst = append(dst, `,"isError":false`...)
	for _, piece := range tail {
		dst = append(dst, piece...)
	}
	dst = append(dst, '}')
	r.body, r.lender = dst, buffers
	r.shared.part, r.quoted.pooled = call.resp.Take()
	return true
}

// closeLegacy closes a legacy result, with the backend's _meta where there is
// any: the sidecar itself has nothing to say there.
func closeLegacy(dst []byte, from content.MetaHolder, own string) ([]byte, *errmap.Error) {
	if own == "" && len(from.GetMetaJson()) == 0 && from.GetMeta() == nil {
		return append(dst, '}'), nil
	}
	dst, err := content.AppendMeta(append(dst, `,"_meta":`...), from, []byte(own))
	if err != nil {
		return nil, errmap.Unwritable(err)
	}
	return append(dst, '}'), nil
}

// listTTL is how long a client may keep a listing, in milliseconds: the
// contract's default for discovery results (300 s).
const listTTL = 300_000
