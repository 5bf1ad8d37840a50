// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// KeptAnswers keeps the first answers of calls with an idempotency key, for as long as they may be asked for again. Values that leave
// the process must be sealed. Implementations are safe for concurrent use. A revision grows with each change of a value, and 0 means
// that nothing was found, or changed: the key is there already, is gone, or has another revision.
type KeptAnswers interface {
	// Get returns a value and its revision.
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	// Create keeps a value under a key that has none. The error is [ErrNoRoom] where it is too much.
	Create(ctx context.Context, key string, value []byte, lifetime time.Duration) (revision uint64, err error)
	// Update replaces the value that has a revision.
	Update(ctx context.Context, key string, value []byte, revision uint64, lifetime time.Duration) (uint64, error)
	// Delete forgets the value that has a revision.
	Delete(ctx context.Context, key string, revision uint64) error
}

// ErrNoRoom is the error of [KeptAnswers] that are full.
var ErrNoRoom = errors.New("bridge: no room for another answer")

// answers gives the first answer again to who repeats a call with its key.
type answers struct {
	deadlines *deadlines
	sender    *sender
	rulebook  *rulebook
	store     KeptAnswers // nil keeps none
	ttl       time.Duration
	most      int // bytes of one
}

// Times of the wait for the first answer: after how long it is looked for again, and how much longer than its deadline allows a call is
// taken to run.
const (
	leastAnswerWait = 20 * time.Millisecond
	mostAnswerWait  = time.Second
	answerGrace     = 5 * time.Second
	// settleTime bounds the storing of an answer, for which its caller waits.
	settleTime = 3 * time.Second
	// answerShare is the part of all answers that one may take.
	answerShare = 64
)

// covers reports whether the answer to a call is kept: it has a key, and may change something.
func (a *answers) covers(c *toolCall) bool {
	if a.store == nil || backend.IdempotencyKey(c.req.Header) == "" {
		return false
	}
	t := c.tool
	isReadOnly := t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly
	return !isReadOnly && t.Compact == catalog.NotCompact && t.Continues == catalog.NoContinuation && c.req.Items == nil && c.req.Exchange == nil
}

// claim lets the first of several calls with one key run, and gives the others its answer.
func (a *answers) claim(ctx context.Context, c *toolCall) *errmap.Error {
	if !a.covers(c) || c.tool.Preview.Is(c.wire) {
		return nil
	}
	timeout := a.deadlines.timeout(c)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// No two claims have the same time, not even those of replicas that are asked at once: letGo tells its claim from another by that.
	until := time.Now().Add(timeout + answerGrace + rand.N(time.Second)) //nolint:gosec // no secret
	mine := &claimed{key: a.answerKey(c), record: &statev1.AnswerRecord{
		Request: a.request(c), View: a.rulebook.kept(ctx, c.tool), RunningUntil: timestamppb.New(until),
	}}
	value, err := proto.Marshal(mine.record)
	if err != nil {
		return errmap.Wrap(errmap.InternalError, err)
	}
	for pause := leastAnswerWait; ; pause = min(2*pause, mostAnswerWait) {
		mine.revision, err = a.store.Create(ctx, mine.key, value, a.ttl)
		switch {
		case errors.Is(err, ErrNoRoom):
			return nil // the backend has the key
		case err != nil:
			a.letGo(ctx, mine.key, value)
			return unanswered(ctx, err)
		case mine.revision > 0:
			c.claimed = mine
			return nil
		}
		isDone, failed := a.found(ctx, c, mine, value)
		if isDone || failed != nil {
			return failed
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return unanswered(ctx, ctx.Err())
		}
	}
}

// letGo deletes a claim whose making failed, or so it seems: it may be there all the same.
func (a *answers) letGo(ctx context.Context, key string, value []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	kept, revision, err := a.store.Get(ctx, key)
	if err == nil && revision > 0 && bytes.Equal(kept, value) {
		_ = a.store.Delete(ctx, key, revision) // else its outcome counts as unknown
	}
}

// found deals with what is kept for a key. It reports false where there is nothing, or a call that runs.
func (a *answers) found(ctx context.Context, c *toolCall, mine *claimed, value []byte) (isDone bool, failed *errmap.Error) {
	kept, revision, err := a.store.Get(ctx, mine.key)
	if err != nil {
		return false, unanswered(ctx, err)
	}
	if revision == 0 {
		return false, nil
	}
	record := &statev1.AnswerRecord{}
	if err := proto.Unmarshal(kept, record); err != nil {
		return false, errmap.Wrap(errmap.InternalError, fmt.Errorf("a kept answer: %w", err))
	}
	switch {
	case string(record.GetRequest()) != string(mine.record.GetRequest()):
		return false, errmap.InvalidInput(c.tool.Name, false, errmap.Violation{
			Keyword: "idempotency-key", Message: "the key was used for another call: use a new key, or repeat the first call unchanged",
		})
	case record.GetRunningUntil() == nil:
		return true, a.again(c, record, mine.record.GetView())
	case time.Now().Before(record.GetRunningUntil().AsTime()):
		return false, nil
	case !c.tool.IsRepeatable():
		return false, errmap.Because(errmap.TransportError, "the first call with this key was sent and has no answer, and whether it had its effect is not known",
			errmap.Retryable(false), errmap.Advice("Find out whether the call had its effect before it is made again with a new key."))
	}
	mine.revision, err = a.store.Update(ctx, mine.key, value, revision, a.ttl)
	if err != nil {
		return false, unanswered(ctx, err)
	}
	if mine.revision == 0 {
		return false, nil // another one has it
	}
	c.claimed = mine
	return true, nil
}

// again makes a kept answer the outcome of a call.
func (a *answers) again(c *toolCall, record *statev1.AnswerRecord, view string) *errmap.Error {
	switch failed := record.GetError(); {
	case record.GetView() != view:
		return errmap.Because(errmap.PermissionDenied, "the call with this key was run before, and the policy or the classes of the caller have changed since, so that its answer is not shown. "+
			"Make the call again with a new key if it may have its effect twice")
	case record.GetTooLarge():
		return errmap.Because(errmap.ResourceExhausted, "the call with this key was run before, and its answer was too large to be kept (--max-answer-bytes)")
	case failed != nil:
		c.isOver = true
		return keptError(failed)
	}
	c.isOver = true
	c.resp.Outcome, c.resp.Explanation, c.resp.Truncated = record.GetOutcome(), record.GetExplanation(), record.GetTruncated()
	if c.resp.Outcome == nil {
		c.resp.Result = Payload{Bytes: record.GetResult(), Encoding: c.req.Arguments.Encoding}
	}
	return nil
}

// keptError is the error of a kept answer.
func keptError(kept *statev1.AnswerRecord_AnswerError) *errmap.Error {
	out := &errmap.Error{
		Code: errmap.Code(kept.GetCode()), Message: kept.GetMessage(), ErrorType: kept.GetErrorType(), BackendCode: kept.GetBackendCode(),
		BackendStatus: kept.GetBackendStatus(), Advice: kept.GetAdvice(), Details: kept.GetDetails(), Retryable: kept.Retryable, Rule: kept.GetRule(),
	}
	for _, v := range kept.GetViolations() {
		out.Violations = append(out.Violations, errmap.Violation{Path: v.GetPath(), Keyword: v.GetKeyword(), Message: v.GetMessage()})
	}
	if said := kept.GetStatus(); said != nil {
		out = backend.Answered(out, connect.Code(said.GetCode()), said.GetMessage(), said.GetDetails())
	}
	return out
}

// keepError is an error as a kept answer has it. Callers of the backend's own method get its status as it came, others never.
func keepError(failed *errmap.Error, isTyped bool) *statev1.AnswerRecord_AnswerError {
	var said *backend.Error
	status := backend.StatusOf(failed)
	isStatus := isTyped && status != nil && errors.As(failed, &said)
	failed = failed.Redacted()
	out := &statev1.AnswerRecord_AnswerError{
		Code: string(failed.Code), Message: failed.Message, ErrorType: failed.ErrorType, BackendCode: failed.BackendCode,
		BackendStatus: failed.BackendStatus, Advice: failed.Advice, Details: failed.Details, Retryable: failed.Retryable, Rule: failed.Rule,
	}
	for _, v := range failed.Violations {
		out.Violations = append(out.Violations, &statev1.AnswerRecord_Violation{Path: v.Path, Keyword: v.Keyword, Message: v.Message})
	}
	if isStatus {
		out.Status = &statev1.AnswerRecord_Status{Code: uint32(status.Code()), Message: said.Message, Details: said.Details}
	}
	return out
}

// isUnknown reports whether a call that changes more with each run was sent, and it is not known what became of it. Its key is kept, so
// that a repetition has no second effect.
func isUnknown(c *toolCall, failed *errmap.Error) bool {
	if failed == nil || !c.sent || c.tool.IsRepeatable() {
		return false
	}
	return failed.Code == errmap.Timeout || failed.Code == errmap.Cancelled || failed.Code == errmap.TransportError
}

// settle keeps the answer to a call that was claimed, or lets its key go where the call may be made again: a question, and a failure
// that may pass, are no answers. A failure behind the backend is one, such as a result that the caller may not see: the effect is there.
func (a *answers) settle(ctx context.Context, c *toolCall, resp *Response) {
	mine := c.claimed
	c.claimed = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if isUnknown(c, resp.Err) {
		mine.record.RunningUntil = timestamppb.Now()
		if value, err := proto.Marshal(mine.record); err == nil {
			_, _ = a.store.Update(ctx, mine.key, value, mine.revision, a.ttl) // else it is known to be unknown later
		}
		return
	}
	isAnswer := resp.inputRequired() == nil && (resp.Err == nil || c.sent && !resp.Err.CanRetry(true) && resp.Err.Code != errmap.Cancelled)
	if !isAnswer {
		_ = a.store.Delete(ctx, mine.key, mine.revision) // else its outcome counts as unknown
		return
	}
	if c.view != nil { // of the policy at that time
		mine.record.View = c.view.Kept()
	}
	record := &statev1.AnswerRecord{
		Request: mine.record.GetRequest(), View: mine.record.GetView(), Outcome: resp.Outcome, Result: resp.Result.Bytes,
		Explanation: resp.Explanation, Truncated: resp.Truncated,
	}
	if resp.Err != nil {
		record.Error = keepError(resp.Err, c.req.Procedure != "")
	}
	value, err := proto.Marshal(record)
	if err != nil || len(value) > a.most {
		record = &statev1.AnswerRecord{Request: record.GetRequest(), View: record.GetView(), TooLarge: true}
		value, _ = proto.Marshal(record)
	}
	_, _ = a.store.Update(ctx, mine.key, value, mine.revision, a.ttl) // else its outcome counts as unknown
}

// request is a digest of what is asked.
func (a *answers) request(c *toolCall) []byte {
	w := &c.req.Wanted
	how := fmt.Sprintf("%d %s %q %d %t %s", c.req.Arguments.Encoding, c.req.Procedure, w.Fields, w.Budget, w.ForModel, w.StreamTime)
	what := asked(c)
	sum := keys.Digest(keys.Label("answer"), []byte(c.tool.Name), []byte(how), what[:])
	return sum[:]
}

// asked is a digest of the arguments of a call. Those that are one message count as that: there are many ways to write one.
func asked(c *toolCall) [sha256.Size]byte {
	if !c.tool.Native && !c.tool.TakesStream() {
		m := dynamicpb.NewMessage(c.tool.Method.Descriptor.Input())
		err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(c.wire, m)
		if c.requestID != "" {
			m.Clear(c.tool.RequestID) // another one each time that the request is made
		}
		same, failed := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(m)
		if err == nil && failed == nil {
			return sha256.Sum256(same)
		}
	}
	if c.req.Arguments.Encoding != EncodingJSON {
		return sha256.Sum256(c.req.Arguments.Bytes)
	}
	return c.digest()
}

// answerKey is the key of an answer: that of the caller, then that of the call with the headers that the backend is sent, because they
// may say for whom the call is.
func (a *answers) answerKey(c *toolCall) string {
	header := a.sender.of(c).Metadata.OfCall(c.req.Header)
	parts := [][]byte{keys.Label("answer-key"), []byte(backend.IdempotencyKey(c.req.Header))}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if differsByRequest(strings.ToLower(name)) {
			continue
		}
		parts = append(parts, []byte(strings.ToLower(name)), []byte(strconv.Itoa(len(header[name]))))
		for _, value := range header[name] {
			parts = append(parts, []byte(value))
		}
	}
	who, key := sha256.Sum256([]byte(c.req.Caller)), keys.Digest(parts...)
	return base64.RawURLEncoding.EncodeToString(who[:]) + "." + base64.RawURLEncoding.EncodeToString(key[:])
}

// differsByRequest holds for headers that a repetition has with another value.
func differsByRequest(name string) bool {
	switch name {
	case traceparent, "tracestate", "baggage", "b3", "x-cloud-trace-context", "x-request-id", "x-correlation-id", "request-id", strings.ToLower(backend.IdempotencyHeader):
		return true
	}
	return false
}

// unanswered is why the first answer is not known. Nothing was run, so the call may be made again.
func unanswered(ctx context.Context, err error) *errmap.Error {
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return errmap.Because(errmap.Timeout, "the first call with this key still runs", errmap.Retryable(true), errmap.RetryAfter(time.Second))
	case ctx.Err() != nil:
		return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
	}
	return errmap.Wrap(errmap.Unavailable, err, errmap.Retryable(true), errmap.RetryAfter(time.Second),
		errmap.Message("Tool service unavailable: the store that knows whether the call was made before did not reply, so it was not made"))
}

// answerMemory keeps the answers of one process. The oldest of a caller make room for its next ones.
type answerMemory struct {
	most      int
	mostBytes int64

	mu    sync.Mutex
	known map[string]*list.Element // of *keptAnswer
	order *list.List               // the oldest first
	bytes int64
}

type keptAnswer struct {
	key      string
	value    []byte
	revision uint64
	until    time.Time
}

func newAnswerMemory(most int, mostBytes int64) *answerMemory {
	return &answerMemory{most: most, mostBytes: mostBytes, known: map[string]*list.Element{}, order: list.New()}
}

func (m *answerMemory) Get(_ context.Context, key string) ([]byte, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(key)
	if e == nil {
		return nil, 0, nil
	}
	return e.value, e.revision, nil
}

func (m *answerMemory) Create(_ context.Context, key string, value []byte, lifetime time.Duration) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for first := m.order.Front(); first != nil && m.isOver(first); first = m.order.Front() {
		m.remove(first)
	}
	if m.find(key) != nil {
		return 0, nil
	}
	if !m.makeRoom(key, 1, len(value)) {
		return 0, ErrNoRoom
	}
	m.known[key] = m.order.PushBack(&keptAnswer{key: key, value: value, revision: 1, until: time.Now().Add(lifetime)})
	m.bytes += keptSize(key, value)
	return 1, nil
}

func (m *answerMemory) Update(_ context.Context, key string, value []byte, revision uint64, lifetime time.Duration) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(key)
	if e == nil || e.revision != revision || !m.makeRoom(key, 0, len(value)-len(e.value)) {
		return 0, nil
	}
	m.bytes += int64(len(value) - len(e.value))
	e.value, e.revision, e.until = value, e.revision+1, time.Now().Add(lifetime)
	return e.revision, nil
}

func (m *answerMemory) Delete(_ context.Context, key string, revision uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.find(key); e != nil && e.revision == revision {
		m.remove(m.known[key])
	}
	return nil
}

// find is what is kept under a key, nil for nothing.
func (m *answerMemory) find(key string) *keptAnswer {
	at := m.known[key]
	if at == nil {
		return nil
	}
	if m.isOver(at) {
		m.remove(at)
		return nil
	}
	return answerAt(at)
}

func answerAt(at *list.Element) *keptAnswer {
	e, _ := at.Value.(*keptAnswer)
	return e
}

func (m *answerMemory) isOver(at *list.Element) bool { return !time.Now().Before(answerAt(at).until) }

func (m *answerMemory) remove(at *list.Element) {
	e := answerAt(at)
	m.order.Remove(at)
	delete(m.known, e.key)
	m.bytes -= keptSize(e.key, e.value)
}

// makeRoom drops the oldest answers of the caller until there is room for more, or else the oldest of all. Calls that run are not
// dropped: who repeats one would run it again.
func (m *answerMemory) makeRoom(key string, entries, size int) bool {
	who, _, _ := strings.Cut(key, ".")
	fits := func() bool {
		return len(m.known)+entries <= m.most && m.bytes+int64(size)+int64(entries)*keptSize(key, nil) <= m.mostBytes
	}
	for _, prefix := range [...]string{who, ""} {
		for at := m.order.Front(); at != nil && !fits(); {
			next := at.Next()
			if e := answerAt(at); e.key != key && e.revision > 1 && strings.HasPrefix(e.key, prefix) {
				m.remove(at)
			}
			at = next
		}
	}
	return fits()
}

// keptSize is what an answer takes: with some bytes around it.
func keptSize(key string, value []byte) int64 { return int64(len(key) + len(value) + 200) }
