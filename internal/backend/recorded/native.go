// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// CallTool implements bridge.Native: it answers a call of a native tool, without events.
func (u *Upstream) CallTool(ctx context.Context, call *outriggerv1.ToolCall, _ http.Header, _ func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *backend.Answer, *errmap.Error) {
	x := u.current()
	tool := x.natives[call.GetToolName()]
	if tool == nil {
		return nil, nil, errmap.New(errmap.Unavailable)
	}
	args, err := nativeArguments(tool, call.GetArgumentsJson())
	if err != nil {
		return nil, nil, errmap.Wrap(errmap.SerializationError, err)
	}
	if found := u.choose(x, args); found != nil {
		l, failed := u.recall(ctx, x, found)
		if failed != nil {
			return nil, nil, failed
		}
		return nativeOutcome(l.Output), &backend.Answer{}, nil
	}
	if !u.opts.Invents || !tool.HasOutput() {
		return nil, nil, u.nothing(x, tool.Name, args)
	}
	data, failed := u.inventData(ctx, tool, args)
	if failed != nil {
		return nil, nil, failed
	}
	return outcomeOf(data), &backend.Answer{}, nil
}

// Ask implements bridge.Native. A recording has calls of tools only.
func (*Upstream) Ask(context.Context, proto.Message, http.Header) (proto.Message, *backend.Answer, *errmap.Error) {
	return nil, nil, errmap.FromBackendStatus(connect.CodeUnimplemented, "a replay has the tools of its backend, and nothing else", nil)
}

// nativeArguments are the arguments of a call of a native tool.
func nativeArguments(tool *catalog.Tool, raw []byte) (*arguments, error) {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	value, err := decoded(raw)
	if err != nil {
		return nil, err
	}
	same, err := json.Marshal(value) // with sorted members
	if err != nil {
		return nil, err
	}
	out := &arguments{of: tool.Name}
	sum := sha256.New()
	for _, part := range []string{"native", tool.Name, string(same)} { // a hash takes everything
		_, _ = sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = sum.Write([]byte(part))
	}
	sum.Sum(out.key[:0])
	var declared struct {
		Required []string `json:"required"`
	}
	_ = json.Unmarshal(tool.Input.Advertised(), &declared) // one that says nothing requires nothing
	out.leaves = jsonLeaves(nil, "", value, declared.Required, false, 0)
	slices.SortFunc(out.leaves, func(a, b leaf) int { return cmp.Compare(a.path, b.path) })
	return out, nil
}

// decoded is a JSON value whose numbers keep their digits.
func decoded(raw []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return value, d.Decode(&value)
}

// jsonLeaves appends the values in a JSON value. Members that are required identify, and so do those with a name that says so.
func jsonLeaves(to []leaf, path string, value any, required []string, identifies bool, depth int) []leaf {
	if len(to) >= maxLeaves || depth > maxNesting {
		return to
	}
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			is := slices.Contains(required, name) || nameIdentifies(snake(name))
			to = jsonLeaves(to, path+"."+name, member, nil, is, depth+1)
		}
		return to
	case []any:
		for i, item := range value {
			to = jsonLeaves(to, path+"."+strconv.Itoa(i), item, nil, identifies, depth+1)
		}
		return to
	}
	text, err := json.Marshal(value)
	if err != nil {
		return to
	}
	return append(to, leaf{path: hashed(path), value: hashed(string(text)), identifies: identifies, isAny: value == redacted})
}

// nativeOutcome is what a recorded call of a native tool came to. The record has the data of a result that has some, and all of another.
func nativeOutcome(raw json.RawMessage) *outriggerv1.ToolOutcome {
	out := new(outriggerv1.ToolOutcome)
	if protojson.Unmarshal(raw, out) == nil && out.GetResult() != nil {
		return out
	}
	return outcomeOf(raw)
}

// The statuses of results.
const (
	statusSuccess = "success"
	statusFailure = "failure"
)

func outcomeOf(data []byte) *outriggerv1.ToolOutcome {
	return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
		Status: statusSuccess, DataForm: &outriggerv1.ToolResult_DataJson{DataJson: data},
	}}}
}

// addNative adds a call of a native tool, or notes why it cannot answer.
func (x *index) addNative(c *call, l *line, tool *catalog.Tool) {
	args, err := nativeArguments(tool, l.Input)
	if err == nil && !l.lacksValues() { // a secret that was left out may break a rule
		err = fits(tool.CheckArguments(context.Background(), l.Input))
	}
	if err != nil {
		x.note(c, driftedInput, err.Error())
		return
	}
	one := &record{call: c, tool: tool}
	if l.Error == nil {
		if err := x.nativeFits(tool, l.Output); err != nil {
			one.drift = err.Error()
			x.note(c, drifted, one.drift)
		}
	}
	x.keep(one, args)
	if l.lacksValues() {
		x.note(c, lacksValues, "")
	}
}

// nativeFits says what of a recorded result the tool of today does not declare.
func (*index) nativeFits(tool *catalog.Tool, raw json.RawMessage) error {
	result := nativeOutcome(raw).GetResult()
	if !tool.HasOutput() || result.GetStatus() == statusFailure {
		return nil
	}
	data, err := result.GetDataJson(), error(nil)
	if result.GetData() != nil {
		data, err = protojson.Marshal(result.GetData())
	}
	switch {
	case err != nil:
		return err
	case len(data) == 0:
		return errors.New("it has no data, and the tool declares an output schema")
	}
	return fits(tool.CheckResult(context.Background(), data, true))
}

// fits is the first thing that a check found.
func fits(found []schema.Violation, err error) error {
	if err == nil && len(found) > 0 {
		err = errors.New(strings.TrimPrefix(found[0].Path+": "+found[0].Message, ": "))
	}
	return err
}

// inventData invents the data of a native tool by its output schema. The check of the result names the rules that it breaks if none was
// found that keeps them.
func (u *Upstream) inventData(ctx context.Context, tool *catalog.Tool, args *arguments) (out []byte, failed *errmap.Error) {
	root, err := decoded(tool.Output.Advertised())
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	random := rand.NewChaCha8(sha256.Sum256(binary.BigEndian.AppendUint64(args.key[:], u.opts.Seed)))
	for i := range attempts {
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		v := &dataInventor{inventor: inventor{Rand: rand.New(random), attempt: i, left: maxValues}, root: root} //nolint:gosec // the same values each time are the point
		if out, err = json.Marshal(v.value(root, 0)); err != nil {
			return nil, errmap.Wrap(errmap.InternalError, err)
		}
		if found, err := tool.CheckResult(ctx, out, true); err == nil && len(found) == 0 {
			break
		}
	}
	return out, nil
}
