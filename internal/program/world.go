// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"go.starlark.net/starlark"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/program/check"
	"github.com/outrigger-mcp/outrigger/internal/program/types"
)

// module is what is before the last dot of the names of tools. The empty one is tools.
type module struct {
	run    *run
	prefix string
}

func (m *module) Type() string          { return "module" }
func (m *module) String() string        { return "module " + m.prefix }
func (m *module) Freeze()               {}
func (m *module) Truth() starlark.Bool  { return true }
func (m *module) Hash() (uint32, error) { return starlark.String(m.prefix).Hash() }

// under reports whether there are tools below a prefix with its dot.
func under(c *catalog.Catalog, prefix string) bool {
	tools := c.Tools()
	at := sort.Search(len(tools), func(i int) bool { return tools[i].Name >= prefix })
	if at < len(tools) && strings.HasPrefix(tools[at].Name, prefix) {
		return true
	}
	return slices.ContainsFunc(tools, func(t *catalog.Tool) bool { return strings.HasPrefix(t.Alias, prefix) })
}

// named is the tool or the module with a name; nil where there is none.
func (r *run) named(name string) starlark.Value {
	if t, ok := r.world.Catalog.Lookup(name); ok {
		return r.tool(t)
	}
	if under(r.world.Catalog, name+".") {
		return &module{r, name}
	}
	return nil
}

func (m *module) Attr(name string) (starlark.Value, error) {
	full := name
	if m.prefix != "" {
		full = m.prefix + "." + name
	}
	if v := m.run.named(full); v != nil {
		return v, nil
	}
	return nil, m.run.unknownTool(full)
}

func (r *run) unknownTool(name string) error {
	if err := r.spend(int64(len(r.world.Catalog.Tools())), 0); err != nil { // each name is compared
		return err
	}
	text := fmt.Sprintf("there is no tool %s", short(name))
	if near := r.world.Catalog.Nearest(name, 3); len(near) > 0 {
		text += "; the nearest are " + strings.Join(near, ", ")
	}
	return errors.New(text)
}

// AttrNames are those of the first tools.
func (m *module) AttrNames() []string {
	var out []string
	prefix := m.prefix + "."
	if m.prefix == "" {
		prefix = ""
	}
	for _, t := range m.run.world.Catalog.Tools() {
		if rest, ok := strings.CutPrefix(t.Name, prefix); ok {
			first, _, _ := strings.Cut(rest, ".")
			if len(out) == 0 || out[len(out)-1] != first {
				out = append(out, first)
			}
		}
		if len(out) == maxKnown {
			break
		}
	}
	return out
}

// Get is tools["name"].
func (m *module) Get(k starlark.Value) (starlark.Value, bool, error) {
	name, ok := starlark.AsString(k)
	if !ok {
		return nil, false, fmt.Errorf("a tool has a name, not %s", k.Type())
	}
	v, err := m.Attr(name)
	return v, err == nil, err
}

// callable is a tool.
type callable struct {
	run           *run
	tool          *catalog.Tool
	input, output *types.Type
}

func (c *callable) Type() string          { return "tool" }
func (c *callable) String() string        { return "tool " + c.tool.Name }
func (c *callable) Name() string          { return c.tool.Name }
func (c *callable) Freeze()               {}
func (c *callable) Truth() starlark.Bool  { return true }
func (c *callable) Hash() (uint32, error) { return starlark.String(c.tool.Name).Hash() }

func (r *run) tool(t *catalog.Tool) *callable {
	if known, ok := r.tools[t]; ok {
		return known
	}
	c := &callable{run: r, tool: t, input: r.world.Input(t), output: r.world.Output(t)}
	r.tools[t] = c
	return c
}

// CallInternal calls the tool.
func (c *callable) CallInternal(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p, err := c.prepare(args, kwargs)
	if err != nil {
		return nil, err
	}
	results, err := c.run.make([]*pending{p}, false)
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// pending is a call that was not made yet.
type pending struct {
	tool         *callable
	arguments    []byte
	line, column int
}

func (p *pending) Type() string          { return "call" }
func (p *pending) String() string        { return "call of " + p.tool.tool.Name }
func (p *pending) Freeze()               {}
func (p *pending) Truth() starlark.Bool  { return true }
func (p *pending) Hash() (uint32, error) { return 0, errors.New("a call cannot be a key") }

// prepare reads the arguments of a call.
func (c *callable) prepare(args starlark.Tuple, kwargs []starlark.Tuple) (*pending, error) {
	if len(args) > 0 {
		return nil, fmt.Errorf("%s takes no arguments without names; write %s", c.tool.Name, c.form())
	}
	p := &pending{tool: c}
	p.line, p.column = c.run.place()
	out := []byte{'{'}
	seen := map[string]bool{}
	for _, kw := range kwargs {
		name, _ := starlark.AsString(kw[0])
		known, err := c.argument(name)
		if err != nil {
			return nil, err
		}
		if seen[known] {
			return nil, fmt.Errorf("%s is given twice", known)
		}
		seen[known] = true
		if kw[1] == starlark.None {
			continue
		}
		value, _, err := c.run.json(kw[1], (c.run.limits.Memory-c.run.memory)/4, false)
		if err != nil {
			return nil, fmt.Errorf("argument %s of %s: %w", name, c.tool.Name, err)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsontext.AppendString(out, known), ':'), value...)
		if err := c.run.spend(0, int64(2*len(value))); err != nil {
			return nil, err
		}
	}
	out = append(out, '}')
	p.arguments = out
	return p, nil
}

// argument is the name of an argument in JSON.
func (c *callable) argument(name string) (string, error) {
	if f := c.input.Field(name); f != nil {
		return f.JSONName, nil
	}
	if c.input == nil || c.input.Open || c.input.Kind != types.Message {
		return name, nil
	}
	var known []string
	for _, f := range c.input.Fields() {
		known = append(known, f.Name)
	}
	return "", fmt.Errorf("%s has no argument %s%s", c.tool.Name, name, suggestion(name, known))
}

// form is how the tool is called.
func (c *callable) form() string {
	var names []string
	for _, f := range c.input.Fields() {
		if f.Required || len(names) == 0 {
			names = append(names, f.Name+"=…")
		}
	}
	return c.tool.Name + "(" + strings.Join(names, ", ") + ")"
}

// place is where the program is, in its own frame.
func (r *run) place() (line, column int) {
	stack := r.thread.CallStack()
	for i := range stack {
		if pos := stack.At(i).Pos; pos.Filename() == fileName && pos.Line > 0 {
			return int(pos.Line), int(pos.Col)
		}
	}
	return 0, 0
}

// make makes calls, several of them at once, and returns their results in order. They are numbered before the first is made, so that the
// same program numbers them alike each time.
func (r *run) make(calls []*pending, keepsErrors bool) ([]starlark.Value, error) {
	if len(calls) > r.limits.Calls-len(r.calls) {
		return nil, r.stop(exceeded(fmt.Sprintf("it makes more than %d calls", r.limits.Calls), "Make fewer calls, or several programs."))
	}
	made := make([]*outcome, len(calls))
	for i, p := range calls {
		made[i] = &outcome{of: p.tool, call: &Call{Number: r.number + i + 1, Line: p.line, Column: p.column, Tool: p.tool.tool, Arguments: p.arguments}}
	}
	r.number += len(calls)
	r.atOnce(made, keepsErrors)
	r.host.Resume(r.ctx)
	var first *errmap.Error
	var failed *Call
	for _, m := range made {
		if !m.isMade {
			continue
		}
		r.calls = append(r.calls, Made{Call: m.call, Err: m.failed})
		if m.failed != nil && (first == nil || isCancelled(first) && !isCancelled(m.failed)) {
			first, failed = m.failed, m.call
		}
	}
	why := first
	if r.ctx.Err() != nil {
		why = r.ended(first)
	} else if keepsErrors {
		why = nil
	}
	if why != nil {
		if r.stopped == nil && why == first {
			r.failed = failed
		}
		return nil, r.stop(why)
	}
	out := make([]starlark.Value, len(made))
	for i, m := range made {
		if m.failed != nil {
			out[i] = failure{m.failed}
			continue
		}
		v, err := r.result(m.of, m.result)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func isCancelled(e *errmap.Error) bool { return e.Code == errmap.Cancelled }

// outcome is how a call ended.
type outcome struct {
	of     *callable
	call   *Call
	isMade bool
	result []byte
	failed *errmap.Error
}

// atOnce makes calls, each begun in its turn. After an error none is begun, and those that run are cancelled.
func (r *run) atOnce(calls []*outcome, keepsErrors bool) {
	if len(calls) == 1 {
		r.one(r.ctx, calls[0])
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(calls), r.limits.Parallel) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(calls) {
					return
				}
				if r.one(ctx, calls[i]); calls[i].failed != nil && !keepsErrors {
					cancel()
				}
			}
		})
	}
	wg.Wait()
}

func (r *run) one(ctx context.Context, o *outcome) {
	o.isMade = true
	defer func() {
		if p := recover(); p != nil {
			o.failed = panicked(p)
		}
	}()
	o.result, o.failed = r.host.Call(ctx, o.call)
}

// valueField is the only field of a result that is no object in JSON.
const valueField = "value"

func hasMember(raw []byte, name string) bool {
	_, ok := jsontext.Lookup(raw, name)
	return ok
}

// maxResultDepth bounds how deep the JSON of a result may be nested.
const maxResultDepth = 1000

// result is the value of the result of a call.
func (r *run) result(c *callable, raw []byte) (starlark.Value, error) {
	if err := r.spend(int64(len(raw)/textStep), int64(len(raw))); err != nil {
		return nil, err
	}
	raw = jsontext.Trim(raw)
	if fault := jsontext.Check(raw, maxResultDepth); fault != nil {
		return nil, r.stop(errmap.Wrap(errmap.InvalidToolOutput, errors.New(fault.Reason), errmap.Tool(c.tool.Name)))
	}
	// A result that is no object comes bare to some callers, and is the member value for others.
	if fields := c.output.Fields(); len(fields) == 1 && fields[0].JSONName == valueField && !hasMember(raw, valueField) {
		raw = slices.Concat([]byte(`{"value":`), raw, []byte("}"))
	}
	return r.value(c.output, raw)
}

// later is a call in the list of a parallel: that of a tool waits, any other is made.
func (r *run) later(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if c, ok := args[0].(*callable); ok {
		return c.prepare(args[1:], kwargs)
	}
	return starlark.Call(thread, args[0], args[1:], kwargs)
}

// parallel makes the calls of a list at once. Items that are values already stay.
func (r *run) parallel(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	keepsErrors := false
	for _, kw := range kwargs {
		if name, _ := starlark.AsString(kw[0]); name != "errors" {
			return nil, fmt.Errorf("parallel has no argument %s; it has errors", name)
		}
		keepsErrors = bool(kw[1].Truth())
	}
	items, err := r.parallelItems(args)
	if err != nil {
		return nil, err
	}
	if err := r.spend(int64(len(items)), times(int64(len(items)), 4*elementBytes)); err != nil {
		return nil, err
	}
	var calls []*pending
	for i, v := range items {
		switch v := v.(type) {
		case *pending:
			calls = append(calls, v)
		case *callable, *starlark.Function:
			return nil, fmt.Errorf("item %d of parallel is a %s; write the calls in its list: parallel([%s for …])", i, v.Type(), "tool(name=value)")
		}
	}
	if len(calls) == 0 {
		return starlark.NewList(items), nil
	}
	results, err := r.make(calls, keepsErrors)
	if err != nil {
		return nil, err
	}
	for i, v := range items {
		if _, ok := v.(*pending); ok {
			items[i], results = results[0], results[1:]
		}
	}
	return starlark.NewList(items), nil
}

// parallelItems are the items of parallel([…]), or of parallel(tool, [{…}]).
func (r *run) parallelItems(args starlark.Tuple) ([]starlark.Value, error) {
	const form = "write parallel([tool(name=value) for …]) or parallel(tool, [{\"name\": value} for …])"
	if len(args) == 0 || len(args) > 2 {
		return nil, errors.New(form)
	}
	list := args[len(args)-1]
	n, err := length(list)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, form)
	}
	c, isTool := args[0].(*callable)
	if isTool != (len(args) == 2) {
		return nil, errors.New(form)
	}
	if err := r.spend(int64(n), times(int64(n), 2*elementBytes)); err != nil {
		return nil, err
	}
	items := make([]starlark.Value, 0, n)
	it := starlark.Iterate(list)
	defer it.Done()
	var one starlark.Value
	for it.Next(&one) {
		if !isTool {
			items = append(items, one)
			continue
		}
		mapping, ok := one.(starlark.IterableMapping)
		if !ok {
			return nil, fmt.Errorf("item %d is %s, not a dict of arguments; %s", len(items), one.Type(), form)
		}
		if err := r.spend(int64(starlark.Len(mapping)), times(int64(starlark.Len(mapping)), entryBytes)); err != nil {
			return nil, err
		}
		kwargs := mapping.Items()
		for _, kw := range kwargs {
			if _, ok := kw[0].(starlark.String); !ok {
				return nil, fmt.Errorf("item %d: the names of arguments are strings, not %s", len(items), kw[0].Type())
			}
		}
		p, err := c.prepare(nil, kwargs)
		if err != nil {
			return nil, err
		}
		items = append(items, p)
	}
	return items, nil
}

// pages are the names of what a tool lists in pages.
type pages struct{ token, next, items string }

// pagesOf finds how a tool lists in pages (AIP-158).
func (c *callable) pagesOf() (pages, error) {
	var p pages
	if paging := c.tool.Paging; paging != nil {
		p.token, p.next = paging.Token, paging.Next
	} else {
		if f := c.input.Field("page_token"); f != nil {
			p.token = f.JSONName
		} else if f = c.input.Field("pageToken"); f != nil {
			p.token = f.JSONName
		}
		for _, name := range [...]string{"next_page_token", "nextPageToken"} {
			if f := c.output.Field(name); f != nil {
				p.next = f.JSONName
			}
		}
	}
	var first protoreflect.FieldDescriptor
	if p.token != "" && !c.tool.Native && c.tool.Method != nil && c.tool.Method.Descriptor != nil {
		fields := c.tool.Method.Descriptor.Output().Fields()
		for i := range fields.Len() {
			if fd := fields.Get(i); fd.IsList() && (first == nil || fd.Number() < first.Number()) {
				first = fd
			}
		}
	}
	for _, f := range c.output.Fields() {
		if f.Type == nil || f.Type.Kind != types.List {
			continue
		}
		if p.items == "" || first != nil && f.Name == string(first.Name()) {
			p.items = f.JSONName
		}
	}
	if p.token == "" || p.next == "" || p.items == "" {
		return p, fmt.Errorf("%s does not list in pages; call it", c.tool.Name)
	}
	return p, nil
}

// paginate calls a tool for each page, and returns the items of all.
func (r *run) paginate(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) != 1 {
		return nil, errors.New("write paginate(tool, name=value), with the arguments of the tool by their names")
	}
	c, ok := args[0].(*callable)
	if !ok {
		return nil, fmt.Errorf("paginate takes a tool that is not called, not %s", args[0].Type())
	}
	p, err := c.pagesOf()
	if err != nil {
		return nil, err
	}
	plain := make([]starlark.Tuple, 0, len(kwargs)+1)
	token := starlark.Value(starlark.None)
	most := math.MaxInt
	for _, kw := range kwargs {
		name, _ := starlark.AsString(kw[0])
		if c.isLimitOfPages(name) {
			if most, err = limitOfPages(kw[1]); err != nil {
				return nil, err
			}
			continue
		}
		if known, err := c.argument(name); err == nil && known == p.token {
			token = kw[1]
			continue
		}
		plain = append(plain, kw)
	}
	var out []starlark.Value
	for seen := map[string]bool{}; ; {
		call, err := c.prepare(nil, append(slices.Clip(plain), starlark.Tuple{starlark.String(p.token), token}))
		if err != nil {
			return nil, err
		}
		results, err := r.make([]*pending{call}, false)
		if err != nil {
			return nil, err
		}
		items, next, err := r.page(p, results[0])
		if err != nil {
			return nil, err
		}
		if err := r.spend(int64(len(items)), times(int64(len(items)), 3*elementBytes)); err != nil {
			return nil, err
		}
		out = append(out, items...)
		if next == "" || seen[next] || len(out) >= most {
			return starlark.NewList(out[:min(len(out), most)]), nil
		}
		seen[next], token = true, starlark.String(next)
	}
}

// isLimitOfPages holds for the argument of paginate that no tool gets: how many items are wanted. A tool that has a limit gets its own.
func (c *callable) isLimitOfPages(name string) bool {
	return name == check.PageLimit && c.input != nil && c.input.Kind == types.Message && !c.input.Open && c.input.Field(name) == nil
}

func limitOfPages(v starlark.Value) (int, error) {
	if v == starlark.None {
		return math.MaxInt, nil
	}
	n, err := starlark.AsInt32(v)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("limit of paginate is a number of items from 1, not %s", v.Type())
	}
	return n, nil
}

func (r *run) page(p pages, result starlark.Value) (items []starlark.Value, next string, err error) {
	m, ok := asMessage(result)
	if !ok {
		return nil, "", fmt.Errorf("a page is %s, not a message", result.Type())
	}
	list, err := m.field(p.items)
	if err != nil {
		return nil, "", err
	}
	if l, ok := list.(*starlark.List); ok {
		for v := range l.Elements() {
			items = append(items, v)
		}
	}
	v, err := m.field(p.next)
	if err != nil {
		return nil, "", err
	}
	if v != nil {
		next, _ = starlark.AsString(v)
	}
	return items, next, nil
}

// inputsOf is the global inputs.
func (r *run) inputsOf(raw []byte) (starlark.Value, error) {
	raw = jsontext.Trim(raw)
	if len(raw) == 0 || jsontext.IsNull(raw) {
		raw = []byte("{}")
	}
	if fault := jsontext.Check(raw, maxNesting); fault != nil {
		return nil, fmt.Errorf("inputs: %s", fault.Reason)
	}
	if !jsontext.IsObject(raw) {
		return nil, fmt.Errorf("inputs is %s, not an object", jsontext.TypeName(raw))
	}
	return r.value(nil, json.RawMessage(raw))
}
