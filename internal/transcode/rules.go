// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// use says for which direction rules are checked. It matters for the fields that only one direction has.
type use uint8

const (
	forInput use = iota
	forOutput
	forEither
)

// ruleBook is protovalidate's validator, which compiles the rules of each message once and keeps them. It is safe for
// concurrent use.
type ruleBook struct {
	opts      Options
	validator atomic.Pointer[func() (protovalidate.Validator, error)] // made when it is first needed
	texts     sync.Map                                                // see textRules
}

func newRuleBook(opts Options) *ruleBook {
	r := &ruleBook{opts: opts}
	r.forget()
	return r
}

// forget lets go of the validator.
func (r *ruleBook) forget() {
	fresh := sync.OnceValues(r.newValidator)
	r.validator.Store(&fresh)
}

func (r *ruleBook) newValidator() (protovalidate.Validator, error) {
	// Predefined rules are extensions of the rule messages: those that the catalog knows take part, and an unknown
	// one is an error when the message is compiled, not a rule that silently does nothing.
	var options []protovalidate.ValidatorOption
	if r.opts.Resolver != nil {
		options = append(options, protovalidate.WithExtensionTypeResolver(r.opts.Resolver))
	}
	v, err := protovalidate.New(options...)
	if err != nil {
		return nil, fmt.Errorf("new validator: %w", err)
	}
	return v, nil
}

// made is the validator.
func (r *ruleBook) made() (protovalidate.Validator, error) { return (*r.validator.Load())() }

// prepare compiles the rules of a message and of all below it, by checking an empty one.
func (r *ruleBook) prepare(md protoreflect.MessageDescriptor) error {
	validator, err := r.made()
	if err != nil {
		return err
	}
	var broken *protovalidate.CompilationError
	if err := validator.Validate(dynamicpb.NewMessage(md)); errors.As(err, &broken) {
		return err
	}
	return nil
}

// checkRules returns an *InputError for broken rules, and a *ruleError for rules that cannot be run. Another error is that of
// the context. n is the size of the message in bytes, whatever its form, and doc the document that it came in; nil for wire bytes.
func (m *Message) checkRules(ctx context.Context, msg *dynamicpb.Message, n int, u use, doc []byte) error {
	if m.rules == nil {
		return nil
	}
	if err := m.affordable(ctx, msg, n); err != nil {
		return err
	}
	var options []protovalidate.ValidationOption
	if len(m.traits.hidden) > 0 {
		options = append(options, protovalidate.WithFilter(filter{m.traits.hidden, u}))
	}
	validator, err := m.rules.made()
	if err == nil {
		err = validator.Validate(msg, options...)
	}
	if err == nil {
		return nil
	}
	var broken *protovalidate.ValidationError
	if !errors.As(err, &broken) {
		return &ruleError{Message: string(m.md.FullName()), Err: err}
	}
	sent, raw := m.sent(doc), broken.ToProto()
	if limit := m.opts.limit(); limit > 0 && len(raw.GetViolations()) > limit {
		raw.Violations = raw.GetViolations()[:limit]
	}
	found := make([]schema.Violation, 0, len(broken.Violations))
	for _, v := range broken.Violations {
		found = append(found, violationFrom(m.md, v, sent))
	}
	return &InputError{Violations: schema.SortViolations(found, m.opts.limit()), Broken: raw}
}

// filter leaves out the fields that the direction does not have: their rules cannot be satisfied.
type filter struct {
	hidden map[protoreflect.FullName]schema.Behavior
	use    use
}

// ShouldValidate implements protovalidate's Filter.
func (f filter) ShouldValidate(msg protoreflect.Message, d protoreflect.Descriptor) bool {
	fd, ok := d.(protoreflect.FieldDescriptor)
	if !ok {
		return true
	}
	b := f.hidden[fd.FullName()]
	switch f.use {
	case forInput:
		return !b.OutputOnly
	case forOutput:
		return !b.InputOnly
	default:
		return !b.OutputOnly && !b.InputOnly || msg.Has(fd)
	}
}

// violationFrom turns protovalidate's field path into a JSON Pointer with the names that ProtoJSON writes. sent is the document
// that was sent, nil where it is not known: a field that it does not have is missing, whatever zero the rule was asked about.
func violationFrom(md protoreflect.MessageDescriptor, v *protovalidate.Violation, sent any) schema.Violation {
	path, rest := pointerFrom(md, v.Proto.GetField().GetElements())
	keyword := v.Proto.GetRuleId()
	message := v.Proto.GetMessage()
	if message == "" {
		message = "wanted the rule " + keyword + " to hold"
	}
	if v.Proto.GetForKey() {
		message = "key: " + message
	}
	if rest != "" {
		message = rest + ": " + message
	}
	switch {
	case v.Proto.GetForKey():
	case isMissing(md, v.Proto.GetField().GetElements(), sent):
		message = missingWord + message
	case v.FieldDescriptor != nil && v.FieldValue.IsValid():
		message += foundText(v.FieldDescriptor, v.FieldValue)
	}
	return schema.Violation{Path: path, Keyword: keyword, Message: message}
}

// pointerFrom walks a field path. What is no field, such as the name of a oneof, cannot be pointed at and is returned in
// words; what lies inside a well-known type is not in its JSON.
func pointerFrom(md protoreflect.MessageDescriptor, elements []*validate.FieldPathElement) (path, rest string) {
	for _, e := range elements {
		if md == nil {
			return path, ""
		}
		fd := fieldByElement(md, e)
		if fd == nil {
			return path, oneofText(md, e.GetFieldName())
		}
		path = schema.AppendPointer(path, schema.Names(fd)[0])
		if token, ok := subscript(e); ok {
			path = schema.AppendPointer(path, token)
		}
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		md = fd.Message()
		if md != nil && schema.IsWellKnown(md) {
			md = nil
		}
	}
	return path, ""
}

func fieldByElement(md protoreflect.MessageDescriptor, e *validate.FieldPathElement) protoreflect.FieldDescriptor {
	if e.GetFieldNumber() == 0 {
		return nil
	}
	return md.Fields().ByNumber(protoreflect.FieldNumber(e.GetFieldNumber()))
}

func oneofText(md protoreflect.MessageDescriptor, name string) string {
	od := md.Oneofs().ByName(protoreflect.Name(name))
	if od == nil {
		return name
	}
	var names []string
	for i := range od.Fields().Len() {
		names = append(names, schema.Names(od.Fields().Get(i))[0])
	}
	return name + " (" + strings.Join(names, ", ") + ")"
}

func subscript(e *validate.FieldPathElement) (string, bool) {
	switch s := e.GetSubscript().(type) {
	case *validate.FieldPathElement_Index:
		return strconv.FormatUint(s.Index, 10), true
	case *validate.FieldPathElement_BoolKey:
		return strconv.FormatBool(s.BoolKey), true
	case *validate.FieldPathElement_IntKey:
		return strconv.FormatInt(s.IntKey, 10), true
	case *validate.FieldPathElement_UintKey:
		return strconv.FormatUint(s.UintKey, 10), true
	case *validate.FieldPathElement_StringKey:
		return s.StringKey, true
	default:
		return "", false
	}
}

// maxFound bounds what a message repeats of a value.
const maxFound = 64

// foundText says what a scalar was. Lists, maps and messages are where the path says.
func foundText(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch x := v.Interface().(type) {
	case string:
		if r := []rune(x); len(r) > maxFound {
			return fmt.Sprintf(", found a string of %d characters", len(r))
		}
		return fmt.Sprintf(", found %q", x)
	case []byte:
		return fmt.Sprintf(", found %d bytes", len(x))
	case protoreflect.EnumNumber:
		if fd.Enum() != nil {
			if ev := fd.Enum().Values().ByNumber(x); ev != nil {
				return ", found " + string(ev.Name())
			}
		}
		return fmt.Sprintf(", found %d", x)
	case bool, int32, int64, uint32, uint64, float32, float64:
		return fmt.Sprintf(", found %v", x)
	default:
		return ""
	}
}

// protovalidate takes no context and has no bound. So what it would do is done or counted here first, within a budget that
// hears the context: patterns are matched, and the loops of expressions are multiplied out. A message that gets through is
// one that protovalidate takes no longer for.

// smallMessage is the size in bytes up to which patterns take milliseconds, whatever they are.
const smallMessage = 4 << 10

const (
	maxLoops        = 8    // beyond it, one more makes no difference
	unknownPattern  = 1024 // instructions of a pattern that an expression computes
	bytesPerElement = 64   // of text, which take an expression as long as one element
)

// affordable returns an *InputError for a message of n bytes whose rules take too much work, or a long text that breaks
// one of its rules. Another error is that of the context.
func (m *Message) affordable(ctx context.Context, msg protoreflect.Message, n int) error {
	if n <= smallMessage && m.traits.loops < 2 {
		return nil
	}
	w := ruleWalk{rules: m.rules, budget: schema.NewBudget(ctx)}
	w.message(msg, "", 0)
	if w.budget.Err() == nil && (m.traits.loops > 0 || m.traits.expressionPattern > 0) {
		w.budget.Spend(m.traits.expressionWork(&w))
	}
	switch err := w.budget.Err(); {
	case errors.Is(err, schema.ErrTooMuchWork):
		return &InputError{Violations: []schema.Violation{schema.TooMuchWork(w.at)}}
	case err != nil:
		return fmt.Errorf("transcode: rules of %s: %w", m.md.FullName(), err)
	case len(w.broken) > 0:
		return &InputError{Violations: schema.SortViolations(w.broken, m.opts.limit())}
	}
	return nil
}

// expressionWork estimates the steps that the expressions of rules take for a message, at most: each loop goes over the
// longest list, for each element of all others.
func (t *traits) expressionWork(w *ruleWalk) int {
	const enough = 1 << 40
	work := w.elements + w.text/bytesPerElement + w.text/bytesPerElement*t.expressionPattern
	for range t.loops - 1 {
		if work *= max(w.longest, 1); work > enough {
			return enough
		}
	}
	return work
}

// ruleWalk goes over a message and matches its patterns.
type ruleWalk struct {
	rules                   *ruleBook
	budget                  *schema.Budget
	at                      string // the path of what is being matched
	elements, longest, text int
	broken                  []schema.Violation
}

// textRules are the rules of a text that take long.
type textRules struct {
	pattern   *schema.Pattern // nil: none
	maxLength uint64          // in characters; 0 is none, since a text so short takes no time
}

func (w *ruleWalk) message(msg protoreflect.Message, path string, depth int) {
	if depth > maxWireDepth {
		return
	}
	msg.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			w.longest = max(w.longest, v.Map().Len())
			keys, values := w.rules.textRules(fd, keysOf), w.rules.textRules(fd, valuesOf)
			v.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				at := func() string {
					return schema.AppendPointer(schema.AppendPointer(path, schema.Names(fd)[0]), key.String())
				}
				if fd.MapKey().Kind() == protoreflect.StringKind {
					w.match(keys, key.String(), at)
				}
				w.value(fd.MapValue(), values, value, at, depth)
				return w.budget.Err() == nil
			})
		case fd.IsList():
			list := v.List()
			w.longest = max(w.longest, list.Len())
			rules := w.rules.textRules(fd, itemsOf)
			for i := 0; i < list.Len() && w.budget.Err() == nil; i++ {
				at := func() string {
					return schema.AppendPointer(schema.AppendPointer(path, schema.Names(fd)[0]), fmt.Sprint(i))
				}
				w.value(fd, rules, list.Get(i), at, depth)
			}
		default:
			w.value(fd, w.rules.textRules(fd, itself), v, func() string { return schema.AppendPointer(path, schema.Names(fd)[0]) }, depth)
		}
		return w.budget.Err() == nil
	})
}

func (w *ruleWalk) value(fd protoreflect.FieldDescriptor, rules *textRules, v protoreflect.Value, at func() string, depth int) {
	w.elements++
	switch {
	case fd.Message() != nil:
		w.budget.Spend(1)
		w.message(v.Message(), at(), depth+1)
	case fd.Kind() == protoreflect.StringKind:
		w.match(rules, v.String(), at)
	case fd.Kind() == protoreflect.BytesKind:
		w.text += len(v.Bytes())
	}
}

// match does what protovalidate would do with a text. Length comes before pattern. What is said about a long text here is
// all that is said about it; a short one is left to protovalidate's words.
func (w *ruleWalk) match(rules *textRules, text string, at func() string) {
	w.text += len(text)
	if rules.pattern == nil {
		return
	}
	isLong := len(text) > smallMessage
	if isLong {
		w.at = at()
	}
	n := uint64(utf8.RuneCountInString(text))
	if isLong && rules.maxLength > 0 && n > rules.maxLength {
		w.broken = append(w.broken, schema.Violation{
			Path: w.at, Keyword: "string.max_len", Message: fmt.Sprintf("must be at most %d characters, found a string of %d characters", rules.maxLength, n),
		})
		return
	}
	if rules.pattern.MatchWithin(w.budget, text) || w.budget.Err() != nil || !isLong {
		return
	}
	w.broken = append(w.broken, schema.Violation{
		Path: w.at, Keyword: "string.pattern", Message: fmt.Sprintf("does not match regex pattern `%s`, found a string of %d characters", rules.pattern, n),
	})
}

// part says which values of a field are meant.
type part uint8

const (
	itself part = iota
	itemsOf
	keysOf
	valuesOf
)

// textRules returns the rules of the texts of a field. They are kept.
func (r *ruleBook) textRules(fd protoreflect.FieldDescriptor, of part) *textRules {
	type key struct {
		fd protoreflect.FieldDescriptor
		of part
	}
	if known, ok := r.texts.Load(key{fd, of}); ok {
		return known.(*textRules)
	}
	out := &textRules{}
	rules, err := protovalidate.ResolveFieldRules(fd)
	if err == nil && rules != nil {
		switch of {
		case itemsOf:
			rules = rules.GetRepeated().GetItems()
		case keysOf:
			rules = rules.GetMap().GetKeys()
		case valuesOf:
			rules = rules.GetMap().GetValues()
		}
		if s := rules.GetString(); rules.GetIgnore() != validate.Ignore_IGNORE_ALWAYS && s.HasPattern() {
			out.pattern, _ = schema.CompilePattern(s.GetPattern()) // one that does not compile is found when the message is
			out.maxLength = s.GetMaxLen()
		}
	}
	r.texts.Store(key{fd, of}, out)
	return out
}

// noteExpressions notes how the work of the expressions among the rules of a message or field grows.
func (t *traits) noteExpressions(rules ...*validate.Rule) {
	for _, rule := range rules {
		loops, pattern := workOf(rule.GetExpression())
		t.loops, t.expressionPattern = max(t.loops, loops), t.expressionPattern+pattern
	}
}

// noteMessage notes the rules of a message itself.
func (t *traits) noteMessage(md protoreflect.MessageDescriptor) {
	if !schema.HasRules(md) {
		return
	}
	t.hasRules = true
	if rules, err := protovalidate.ResolveMessageRules(md); err == nil {
		t.noteExpressions(slices.Concat(rules.GetCel(), expressionRules(rules.GetCelExpression()))...)
	}
}

// noteField notes the rules of a field, its elements, and the keys and values of a map.
func (t *traits) noteField(fd protoreflect.FieldDescriptor) {
	if !schema.HasRules(fd) {
		return
	}
	t.hasRules = true
	rules, err := protovalidate.ResolveFieldRules(fd)
	if err != nil {
		return // protovalidate says so
	}
	for _, r := range []*validate.FieldRules{rules, rules.GetRepeated().GetItems(), rules.GetMap().GetKeys(), rules.GetMap().GetValues()} {
		t.noteExpressions(slices.Concat(r.GetCel(), expressionRules(r.GetCelExpression()))...)
	}
}

func expressionRules(list []string) []*validate.Rule {
	var out []*validate.Rule
	for _, text := range list {
		out = append(out, validate.Rule_builder{Expression: &text}.Build())
	}
	return out
}

// token finds what matters in an expression: texts, macros that loop, matches, and parentheses.
var token = regexp.MustCompile(`[rR]?"""(?s:.*?)"""|[rR]?'''(?s:.*?)'''|[rR]?"(?:\\.|[^"\\])*"|[rR]?'(?:\\.|[^'\\])*'|\b(?:all|exists|exists_one|existsOne|map|filter|transformList|transformMap|transformMapEntry|sortBy|matches)\s*\(|[()]`)

// workOf reads how many loops of an expression are within each other, counting itself as none, and the size of the patterns
// that it matches with.
func workOf(expression string) (loops, pattern int) {
	var open []bool // for each parenthesis, whether it is that of a loop
	depth, awaitsPattern := 0, false
	for _, text := range token.FindAllString(expression, -1) {
		switch {
		case text == ")":
			if n := len(open); n > 0 {
				if open[n-1] {
					depth--
				}
				open = open[:n-1]
			}
			if awaitsPattern {
				pattern, awaitsPattern = pattern+unknownPattern, false
			}
		case strings.HasPrefix(text, "matches"):
			open, awaitsPattern = append(open, false), true
		case text == "(":
			open = append(open, false)
		case strings.HasSuffix(text, "("):
			open = append(open, true)
			depth++
			loops = max(loops, min(depth, maxLoops))
		case awaitsPattern:
			pattern, awaitsPattern = pattern+patternSize(text), false
		}
	}
	return loops, pattern
}

// patternSize is the size of a pattern that an expression has as a text.
func patternSize(text string) int {
	p, err := schema.CompilePattern(strings.Trim(text, `rR"'`))
	if err != nil {
		return unknownPattern
	}
	return p.Size()
}
