// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compileECMA compiles the pattern of a JSON Schema, which is one of ECMA 262 with the flag u.
func compileECMA(pattern string) (*Pattern, error) {
	read, err := readECMA(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %w", clipped(pattern), err)
	}
	p, err := CompilePattern(read)
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %w", clipped(pattern), err)
	}
	return p, nil
}

// clipped is a pattern for an error.
func clipped(pattern string) string {
	const most = 128
	if len(pattern) > most {
		pattern = strings.ToValidUTF8(pattern[:most], "") + "…"
	}
	return strconv.Quote(pattern)
}

// readECMA returns a pattern of RE2 for the texts that a pattern of ECMA 262 matches. What cannot be matched in linear time, and what RE2
// alone knows, is an error.
func readECMA(pattern string) (string, error) {
	r := ecmaReader{rest: pattern}
	for r.rest != "" {
		if err := r.next(); err != nil {
			return "", err
		}
	}
	return r.out.String(), nil
}

type ecmaReader struct {
	rest    string
	out     strings.Builder
	inClass bool
}

// put writes RE2 for the first n bytes of the rest.
func (r *ecmaReader) put(n int, text string) {
	_, _ = r.out.WriteString(text)
	r.rest = r.rest[n:]
}

func (r *ecmaReader) next() error {
	switch c := r.rest[0]; {
	case c == '\\':
		return r.escape()
	case r.inClass:
		if c == '[' {
			r.put(1, `\[`) // a class of POSIX would begin here
			return nil
		}
		r.inClass = c != ']'
	case c == '.':
		r.put(1, `[^`+lineEnds+`]`)
		return nil
	case strings.HasPrefix(r.rest, "[]"):
		r.put(2, `[^\x00-\x{10ffff}]`)
		return nil
	case strings.HasPrefix(r.rest, "[^]"):
		r.put(3, `[\x00-\x{10ffff}]`)
		return nil
	case strings.HasPrefix(r.rest, "[^"):
		r.inClass = true
		r.put(2, "[^")
		return nil
	case c == '[':
		r.inClass = true
	case strings.HasPrefix(r.rest, "(?"):
		return r.group()
	}
	r.put(1, r.rest[:1])
	return nil
}

func (r *ecmaReader) group() error {
	switch after := r.rest[2:]; {
	case strings.HasPrefix(after, ":"):
		r.put(3, "(?:")
	case strings.HasPrefix(after, "="), strings.HasPrefix(after, "!"), strings.HasPrefix(after, "<="), strings.HasPrefix(after, "<!"):
		return errors.New("it looks around, and patterns are matched in linear time; say it with allOf and not")
	case strings.HasPrefix(after, "<"):
		r.put(3, "(?P<")
	default:
		return errors.New("a group with flags or (?P is no syntax of ECMA 262, as JSON Schema has it; use classes, or (?<name>")
	}
	return nil
}

func (r *ecmaReader) escape() error {
	if len(r.rest) < 2 {
		return errors.New("it ends with a backslash")
	}
	c := r.rest[1]
	switch {
	case c == 's' && r.inClass:
		r.put(2, spaces)
	case c == 's':
		r.put(2, "["+spaces+"]")
	case c == 'S' && r.inClass:
		r.put(2, notSpaces)
	case c == 'S':
		r.put(2, "["+notSpaces+"]")
	case c == 'b' && r.inClass:
		r.put(2, `\x08`)
	case c == 'x', c == 'u', c == 'c':
		return r.code()
	case c == 'p', c == 'P':
		return r.property()
	case c == '0' && (len(r.rest) == 2 || r.rest[2] < '0' || r.rest[2] > '9'):
		r.put(2, `\x00`)
	case '0' <= c && c <= '9', c == 'k':
		return errors.New("it refers to a group, and patterns are matched in linear time")
	case strings.IndexByte("dDwWtnvfr", c) >= 0, (c == 'b' || c == 'B') && !r.inClass:
		r.put(2, r.rest[:2])
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c >= utf8.RuneSelf:
		_, n := utf8.DecodeRuneInString(r.rest[1:])
		return fmt.Errorf("%s is no escape of ECMA 262, as JSON Schema has it; text begins at ^ and ends at $, flags and \\Q do not exist", r.rest[:1+n])
	default:
		r.put(2, r.rest[:2])
	}
	return nil
}

// code reads \xHH, \uHHHH, two of those that are one character, \u{H} and \cL.
func (r *ecmaReader) code() error {
	text := r.rest
	if text[1] == 'c' {
		if len(text) < 3 || (text[2]|0x20) < 'a' || (text[2]|0x20) > 'z' {
			return errors.New(`\c is before a letter`)
		}
		r.put(3, fmt.Sprintf(`\x%02x`, text[2]&0x1f))
		return nil
	}
	n, code, ok := hexCode(text)
	if ok && code>>10 == 0xd800>>10 {
		m, low, isLow := hexCode(text[n:])
		ok = isLow && low>>10 == 0xdc00>>10
		n, code = n+m, 0x10000+(code&0x3ff)<<10+low&0x3ff
	}
	if !ok || code > utf8.MaxRune || code>>11 == 0xd800>>11 {
		return errors.New(`the character is written as \xHH, \uHHHH or \u{H}, and half a surrogate pair is none`)
	}
	r.put(n, fmt.Sprintf(`\x{%x}`, code))
	return nil
}

// hexCode reads \xHH, \uHHHH or \u{H}, and returns its length.
func hexCode(text string) (n int, code uint64, ok bool) {
	var digits string
	switch {
	case strings.HasPrefix(text, `\u{`):
		var closed bool
		digits, _, closed = strings.Cut(text[3:], "}")
		if n = 4 + len(digits); !closed {
			return 0, 0, false
		}
	case strings.HasPrefix(text, `\u`) && len(text) >= 6:
		n, digits = 6, text[2:6]
	case strings.HasPrefix(text, `\x`) && len(text) >= 4:
		n, digits = 4, text[2:4]
	}
	code, err := strconv.ParseUint(digits, 16, 32)
	return n, code, err == nil
}

// property reads \p{L}, \p{Lu}, \p{Script=Greek} and their opposites. RE2 names scripts without the word, and knows \pL.
func (r *ecmaReader) property() error {
	name, _, closed := strings.Cut(r.rest[2:], "}")
	name, opened := strings.CutPrefix(name, "{")
	script, isScript := strings.CutPrefix(name, "Script=")
	if !isScript {
		script, isScript = strings.CutPrefix(name, "sc=")
	}
	if !opened || !closed || name == "" || !isScript && len(name) > 2 {
		return errors.New(`of the properties of characters, general categories (\p{Lu}) and scripts (\p{Script=Greek}) are known`)
	}
	of := r.rest[1:2]
	r.put(len(name)+4, `\`+of+"{"+script+"}")
	return nil
}

// machine is a compiled schema that one check at a time uses. The library takes no context, and its patterns and formats do
// not know which check they are asked for. So each machine has its own: before a schema is put to a value they spend what
// it will take from the budget of the check that runs, and unwind the library where the budget has ended.
type machine struct {
	root   *jsonschema.Schema
	budget Budget
}

// run checks a value. The error is the library's, or that of the budget.
func (m *machine) run(ctx context.Context, work int, value any) (err error) {
	m.budget = Budget{ctx: ctx, left: work}
	defer func() {
		r := recover()
		if m.budget.err != nil {
			err = m.budget.err
		} else if r != nil {
			// The library panics on numbers that its arithmetic cannot hold. Inspect refuses those that are known.
			err = fmt.Errorf("%v", r)
		}
		m.budget = Budget{}
	}()
	if !m.budget.look() {
		return nil
	}
	return m.root.Validate(value)
}

func (m *machine) spend(steps int) {
	if !m.budget.Spend(steps) {
		panic(m.budget.err) //nolint:forbidigo // there is no other way out of the library; run recovers
	}
}

// meteredPattern is a pattern of one place of a machine's schema.
type meteredPattern struct {
	*Pattern
	in      *machine
	tooLong bool // the value at hand is longer than the schema allows, which is said instead
}

// MatchString implements jsonschema.Regexp.
func (p *meteredPattern) MatchString(text string) bool {
	if p.tooLong {
		return true
	}
	matches := p.MatchWithin(&p.in.budget, text)
	p.in.spend(0)
	return matches
}

// meter makes one schema of a machine spend what it takes. A format is what the library asks first, after the type and fixed
// values, which are paid for by what leads here.
func (m *machine) meter(s *jsonschema.Schema) {
	if s.Bool != nil {
		return
	}
	c := costOf(s)
	pattern, _ := s.Pattern.(*meteredPattern)
	format := &jsonschema.Format{}
	if s.Format != nil {
		*format = *s.Format
	}
	asserted := format.Validate
	if format.Name == "regex" { // the one format of the library that cannot be replaced
		asserted = nil
	}
	format.Validate = func(value any) error {
		m.spend(c.of(value))
		if text, ok := value.(string); ok && pattern != nil && s.MaxLength != nil {
			pattern.tooLong = utf8.RuneCountInString(text) > *s.MaxLength
		}
		if asserted == nil {
			return nil
		}
		return asserted(value)
	}
	s.Format = format
}

// machines are those of one schema. Checks wait for processors and for nothing else, so that there is no use in more
// machines than processors.
type machines struct {
	build func() (*machine, error)
	slots chan struct{}
	mu    sync.Mutex
	idle  []*machine
}

func newMachines(build func() (*machine, error), idle ...*machine) *machines {
	return &machines{build: build, slots: make(chan struct{}, runtime.GOMAXPROCS(0)), idle: idle}
}

// acquire returns a machine for one check, which gives it back with release.
func (ms *machines) acquire(ctx context.Context) (*machine, error) {
	isFree := false
	select {
	case ms.slots <- struct{}{}:
		if m := ms.rest(); m != nil {
			return m, nil
		}
		isFree = true
	default:
	}
	if at, ok := ctx.Deadline(); ok { // a context may have one without a timer
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at)
		defer cancel()
	}
	if !isFree {
		select {
		case ms.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err() //nolint:wrapcheck // its caller says of what
		}
		if m := ms.rest(); m != nil {
			return m, nil
		}
	}
	return ms.another(ctx)
}

// rest returns a machine that rests, nil if there is none.
func (ms *machines) rest() *machine {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	n := len(ms.idle)
	if n == 0 {
		return nil
	}
	m := ms.idle[n-1]
	ms.idle = ms.idle[:n-1]
	return m
}

// another builds a machine, or returns the context's error. A large schema takes seconds to compile, and the library hears
// no context: what is not waited for any more is there for the next check.
func (ms *machines) another(ctx context.Context) (*machine, error) {
	type result struct {
		m   *machine
		err error
	}
	built := make(chan result)
	go func() {
		m, err := ms.build()
		select {
		case built <- result{m, err}:
		case <-ctx.Done():
			if err == nil {
				ms.release(m)
			} else {
				<-ms.slots
			}
		}
	}()
	select {
	case r := <-built:
		if r.err != nil {
			<-ms.slots
		}
		return r.m, r.err
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // its caller says of what
	}
}

func (ms *machines) release(m *machine) {
	ms.mu.Lock()
	ms.idle = append(ms.idle, m)
	ms.mu.Unlock()
	<-ms.slots
}
