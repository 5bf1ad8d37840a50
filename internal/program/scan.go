// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/internal/program/check"
)

// class is the class of a token.
type class uint8

const (
	endOfText class = iota
	endOfLine       // outside of brackets
	word
	number
	text
	mark // an operator or a bracket
)

// token is a token of Python, of which Starlark has a part.
type token struct {
	class        class
	text         string
	line, column int
	isFirst      bool // of its line, outside of brackets
	indent       int  // of the line that it is the first of
}

// scanner reads the tokens of a program. It never fails: what no token begins with is a mark of one character.
type scanner struct {
	source       string
	pos          int
	line, column int
	brackets     int
	isFresh      bool // nothing but space so far on a line outside of brackets
	indent       int
}

func (s *scanner) advance(n int) {
	for _, c := range s.source[s.pos : s.pos+n] {
		s.column++
		if c == '\n' {
			s.line, s.column = s.line+1, 1
		}
	}
	s.pos += n
}

// skipSpace passes space and comments, and reports whether a line ended outside of brackets.
func (s *scanner) skipSpace() (ended bool) {
	for s.pos < len(s.source) {
		switch c := s.source[s.pos]; {
		case c == '\n':
			s.advance(1)
			if s.brackets == 0 {
				wasFresh := s.isFresh
				s.isFresh, s.indent = true, 0
				if !wasFresh {
					return true
				}
			}
		case c == ' ', c == '\t', c == '\r':
			s.advance(1)
			if s.isFresh {
				s.indent++
			}
		case c == '\\' && strings.HasPrefix(s.source[s.pos+1:], "\n"):
			s.advance(2)
		case c == '#':
			end := strings.IndexByte(s.source[s.pos:], '\n')
			if end < 0 {
				end = len(s.source) - s.pos
			}
			s.advance(end)
		default:
			return false
		}
	}
	return false
}

// markSize is the length of the operator or the bracket at the beginning of a text.
func markSize(s string) int {
	if len(s) >= 3 && (s[:3] == "**=" || s[:3] == "//=" || s[:3] == "<<=" || s[:3] == ">>=" || s[:3] == "...") {
		return 3
	}
	if len(s) < 2 {
		return 1
	}
	switch s[1] {
	case '=':
		if strings.IndexByte("<>=!:+-*/%&|^@", s[0]) >= 0 {
			return 2
		}
	case s[0]:
		if strings.IndexByte("*/<>", s[0]) >= 0 {
			return 2
		}
	case '>':
		if s[0] == '-' || s[0] == '<' {
			return 2
		}
	}
	return 1
}

func (s *scanner) next() token {
	t := token{line: s.line, column: s.column}
	if s.skipSpace() {
		t.class = endOfLine
		return t
	}
	t.line, t.column, t.isFirst, t.indent = s.line, s.column, s.isFresh, s.indent
	if s.pos >= len(s.source) {
		return t
	}
	s.isFresh = false
	rest := s.source[s.pos:]
	c, size := utf8.DecodeRuneInString(rest)
	n := 0
	switch {
	case c == '_' || unicode.IsLetter(c):
		n = len(rest) - len(strings.TrimLeftFunc(rest, isWordRune))
		t.class = word
		if n < len(rest) && (rest[n] == '"' || rest[n] == '\'') && isPrefix(rest[:n]) {
			t.class, n = text, n+quoted(rest[n:])
		}
	case c == '"', c == '\'':
		t.class, n = text, quoted(rest)
	case '0' <= c && c <= '9':
		t.class, n = number, len(rest)-len(strings.TrimLeftFunc(rest, func(c rune) bool { return c == '.' || isWordRune(c) }))
	default:
		t.class, n = mark, max(size, markSize(rest))
	}
	t.text = rest[:n]
	s.advance(n)
	switch t.text {
	case "(", "[", "{":
		s.brackets++
	case ")", "]", "}":
		s.brackets = max(0, s.brackets-1)
	}
	return t
}

func isWordRune(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) }

// isPrefix holds for what may be before the quote of a string.
func isPrefix(s string) bool {
	return len(s) <= 2 && strings.Trim(strings.ToLower(s), "rbfut") == ""
}

// quoted is the length of a string at the beginning of s, as far as it goes.
func quoted(s string) int {
	quote := s[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s, triple) {
		quote = triple
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		case s[i] == '\n' && len(quote) == 1:
			return i
		}
	}
	return len(s)
}

// level is what is known of an open bracket, or of the text outside of all.
type level struct {
	bracket token
	// chain bounds how deep the tree of the expression at hand may be beside what is in its brackets.
	chain int
	// compared is set after a comparison that another one may not follow, hasColon and hasItems where there is one at this level.
	compared, hasColon, hasItems, isParams, isLambda bool
}

// reader finds what is not in the language, before the parser does: the parser stops at the first fault, and says what it expected,
// but not how to write what was meant.
type reader struct {
	source string
	// last are the two tokens before the one at hand.
	last     [2]token
	starts   []int // lines where the statements outside of all others begin
	levels   []level
	findings []check.Finding
	faulty   map[int]bool // lines with a finding
	elifs    map[int]int  // one after the other, by their indentation: each is in the one before
	blocks   []int        // indentations of open blocks
	maxDepth int
	tooDeep  *token
	more     int // findings that are not kept
	// isUnreadable is set for a number that the parser takes long for: its time grows with the square of the digits.
	isUnreadable bool
}

// chainShare is how many operators one after the other count as one level of nesting: they make a tree as deep, but people write them.
const chainShare = 16

func scan(source string, maxDepth int) *reader {
	r := &reader{source: source, faulty: map[int]bool{}, elifs: map[int]int{}, maxDepth: maxDepth, levels: make([]level, 1)}
	s := newScanner(source)
	for t := s.next(); t.class != endOfText && r.tooDeep == nil; {
		after := s.next()
		if t.isFirst && t.indent == 0 && t.text != "else" && t.text != "elif" {
			r.starts = append(r.starts, t.line)
		}
		r.measure(t)
		r.read(t, after)
		r.last[1], r.last[0], t = r.last[0], t, after
	}
	return r
}

func newScanner(source string) scanner {
	return scanner{source: source, line: 1, column: 1, isFresh: true}
}

func (r *reader) top() *level { return &r.levels[len(r.levels)-1] }

// measure counts how deep the tree may be.
func (r *reader) measure(t token) {
	if t.isFirst {
		for len(r.blocks) > 0 && r.blocks[len(r.blocks)-1] >= t.indent {
			r.blocks = r.blocks[:len(r.blocks)-1]
		}
		r.blocks = append(r.blocks, t.indent)
		switch t.text {
		case "if":
			r.elifs[t.indent] = 0
		case "elif":
			r.elifs[t.indent]++
		}
	}
	l := r.top()
	switch {
	case t.class == endOfLine || t.text == "," || t.text == ";" || t.text == ":" && l.bracket.text != "" && !l.isLambda:
		l.chain = 0
	case t.class == mark, t.text == "not", t.text == "and", t.text == "or", t.text == "in", t.text == "lambda", t.text == "if", t.text == "else", t.text == "for":
		l.chain++
	}
	chains := r.elifs[t.indent]
	for _, l := range r.levels {
		chains += l.chain
	}
	if r.tooDeep == nil && (len(r.levels)+len(r.blocks) > r.maxDepth || chains > chainShare*r.maxDepth) {
		r.tooDeep = &t
	}
}

func (r *reader) found(t token, rule, message, instead string) {
	if r.faulty[t.line] && len(r.findings) > 0 && r.findings[len(r.findings)-1].Rule == rule && r.findings[len(r.findings)-1].Line == t.line {
		return
	}
	r.faulty[t.line] = true
	if len(r.findings) == maxFindings {
		r.more++
		return
	}
	r.findings = append(r.findings, check.Finding{Line: t.line, Column: t.column, Rule: rule, Message: message, Instead: instead})
}

// absent are words of Python that have no counterpart, and what to write.
func absent(name string) (message, instead string) {
	switch name {
	case "import", "from":
		return "there are no imports: the tools, parallel, paginate, json, timestamp and duration are there without one", ""
	case "load":
		return "there is no load: the tools, parallel, paginate, json, timestamp and duration are there without one", ""
	case "while":
		return "there is no while", "for i in range(100): … with break"
	case "try", "except", "finally":
		return "there is no try: errors are values of parallel([…], errors=True)", "[r for r in parallel([…], errors=True) if r]"
	case "raise", "assert":
		return "there is no " + name, `fail("…")`
	case "class":
		return "there are no classes", `a dict: {"name": value}`
	case "with":
		return "there is no with", "the statements of its body alone"
	case "async", "await":
		return "there is no " + name, "a plain call; parallel([…]) runs calls at once"
	case "del":
		return "there is no del", "d.pop(key)"
	case "global", "nonlocal":
		return "there is no " + name, "x = f(…), with return in the function"
	case "yield":
		return "there are no generators", "out.append(x) for each, and return out"
	}
	return "", ""
}

// read looks at one token in its place.
func (r *reader) read(t, after token) {
	l, before := r.top(), r.last[0]
	switch t.class {
	case endOfText:
	case endOfLine:
		*l = level{bracket: l.bracket}
	case text:
		r.readText(t, before)
	case number:
		r.readNumber(t)
	case word:
		r.readWord(t, before, after)
		l.compared = l.compared && (!isKeyword(t.text) || t.text == "not" || t.text == "in")
		l.hasItems = true
	case mark:
		r.readMark(t, before)
	}
}

func (r *reader) readText(t, before token) {
	prefix := strings.ToLower(t.text[:strings.IndexAny(t.text, `"'`)])
	if strings.ContainsAny(prefix, "ft") {
		r.found(t, "f-string", "there are no f-strings", formatted(t.text))
	}
	if strings.Contains(prefix, "u") {
		r.found(t, "string-prefix", "there is no string prefix u", t.text[1:])
	}
	if before.class == text {
		r.found(t, "adjacent-strings", "strings beside one another are not joined", `"…" + "…"`)
	}
}

// maxDigits bounds an integer in the program: more than the largest that a run may make.
const maxDigits = 600

func (r *reader) readNumber(t token) {
	switch {
	case len(t.text) > maxDigits:
		r.isUnreadable = true
		r.found(t, "number", fmt.Sprintf("a number has at most %d digits", maxDigits), "")
	case strings.Contains(t.text, "_"):
		r.found(t, "number", "numbers have no underscores", strings.ReplaceAll(t.text, "_", ""))
	}
}

func (r *reader) readWord(t, before, after token) {
	l := r.top()
	message, instead := absent(t.text)
	isReserved := message != "" && t.text != "load" && t.text != "assert" || t.text == "is" || t.text == "as"
	switch {
	case before.text == "." && (isReserved || isKeyword(t.text)):
		r.found(t, "reserved", fmt.Sprintf("%s is a reserved word, so that it cannot follow a dot", t.text),
			fmt.Sprintf(`getattr(value, %q), or tools["module.%s"](…)`, t.text, t.text))
	case isReserved && after.text == "=" && l.bracket.text == "(":
		r.found(t, "reserved", fmt.Sprintf("%s is a reserved word, so that it cannot name an argument", t.text), fmt.Sprintf(`**{%q: value}`, t.text))
	case r.faulty[t.line] && isReserved: // the rest of a line that has its finding
	case t.text == "is":
		r.found(t, "is", "there is no is", map[bool]string{true: "!=", false: "=="}[after.text == "not"])
	case t.text == "load" || t.text == "assert":
		if t.isFirst && (after.text == "(" || t.text == "assert") {
			r.found(t, t.text, message, instead)
		}
	case message != "":
		r.found(t, t.text, message, instead)
	case t.text == "print" && after.text == "(" && before.text != "." && before.text != "def":
		r.found(t, "print", "there is no print: only the value of result is returned", "result = …")
	case t.text == "for" && l.bracket.text == "(":
		r.found(l.bracket, "generator", "there are no generator expressions", "[x for x in xs]")
	case t.text == "lambda":
		l.isLambda = true
	}
}

func (r *reader) readMark(t, before token) {
	l := r.top()
	isOperand := before.class == word && !isKeyword(before.text) || before.class == number || before.class == text ||
		before.text == ")" || before.text == "]" || before.text == "}"
	switch t.text {
	case "(", "[", "{":
		l.hasItems = true
		r.levels = append(r.levels, level{bracket: t, isParams: t.text == "(" && r.last[1].text == "def"})
		return
	case ")", "]", "}":
		if len(r.levels) > 1 {
			if l.bracket.text == "{" && t.text == "}" && l.hasItems && !l.hasColon {
				r.found(l.bracket, "set", "there are no sets in braces", "set([…])")
			}
			r.levels = r.levels[:len(r.levels)-1]
		}
		return
	case "**":
		switch {
		case l.bracket.text == "{":
			l.hasColon = true
			r.found(t, "spread", "a dict in braces cannot take in another", "a | b")
		case isOperand:
			r.found(t, "power", "there is no **", "x * x")
		}
	case "*":
		if !isOperand && (l.bracket.text == "[" || l.bracket.text == "{") {
			r.found(t, "spread", "a list in brackets cannot take in another", "a + b")
		}
	case ":=":
		r.found(t, "walrus", "there is no :=", "an assignment before the statement: x = …")
	case "->":
		r.found(t, "type-hint", "there are no type hints", "def name(a, b):")
	case "@":
		if t.isFirst {
			r.found(t, "decorator", "there are no decorators", "a call of the function")
		}
	case ":":
		r.readColon(t, before)
	case "<", ">", "<=", ">=", "==", "!=", "<>":
		if l.compared {
			r.found(t, "chained-comparison", "comparisons are not chained", "a < b and b < c")
		}
		l.compared = true
	case ",", "=", ";", "+=", "-=", "*=", "/=", "|=":
		l.compared = false
	}
	l.hasItems = true
}

func (r *reader) readColon(t, before token) {
	l := r.top()
	l.hasColon, l.compared = true, false
	switch {
	case l.isLambda:
		l.isLambda, l.hasColon = false, false
	case l.isParams && before.class == word:
		r.found(t, "type-hint", "there are no type hints", "def name(a, b):")
	case l.bracket.text == "" && before.class == word && before.isFirst && !isKeyword(before.text):
		r.found(t, "type-hint", "there are no type hints", before.text+" = …")
	}
}

func isKeyword(s string) bool {
	switch s {
	case "and", "break", "continue", "def", "elif", "else", "for", "if", "in", "lambda", "not", "or", "pass", "return",
		"try", "finally", "except", "while", "class", "with", "is", "import", "from", "raise", "yield", "async", "await":
		return true
	}
	return false
}

// formatted is an f-string as a call of format, where that is plain; else an example.
func formatted(s string) string {
	const example = `"{}: {}".format(a, b)`
	at := strings.IndexAny(s, `"'`)
	body := s[at:]
	if len(body) > 200 || strings.Contains(body, "{{") || strings.Contains(body, "}}") {
		return example
	}
	var out strings.Builder
	var args []string
	for {
		open := strings.IndexByte(body, '{')
		if open < 0 {
			break
		}
		size := strings.IndexByte(body[open:], '}')
		if size < 0 {
			return example
		}
		arg := body[open+1 : open+size]
		arg, layout, hasLayout := strings.Cut(arg, ":")
		if strings.ContainsAny(arg, `!{="'`) || strings.ContainsAny(layout, `])'"{`) || strings.TrimSpace(arg) == "" {
			return example
		}
		args = append(args, strings.TrimSpace(arg))
		if out.WriteString(body[:open] + "{"); hasLayout {
			out.WriteString(":" + layout)
		}
		out.WriteString("}")
		body = body[open+size+1:]
	}
	out.WriteString(body)
	if len(args) == 0 {
		return out.String()
	}
	return out.String() + ".format(" + strings.Join(args, ", ") + ")"
}

// unclosed is the bracket whose missing end is the fault that the parser found; nil where the fault is another one.
func (r *reader) unclosed(fault syntax.Error) *token {
	isAtEnd := strings.HasPrefix(fault.Msg, "got end of file")
	if !strings.HasPrefix(fault.Msg, "got ") || strings.IndexAny(fault.Msg, ")]}") == len("got '") { // the end of another bracket
		return nil
	}
	for i := len(r.levels) - 1; i > 0; i-- {
		if open := r.levels[i].bracket; isAtEnd || open.line < int(fault.Pos.Line) {
			return &open
		}
	}
	return nil
}

// closing is the end of a bracket.
func closing(bracket string) string {
	return map[string]string{"(": ")", "[": "]", "{": "}"}[bracket]
}

// beginning is the column where the token begins that a place is in, or just behind.
func (r *reader) beginning(line, column int) int {
	begins := column
	s := newScanner(r.source)
	for t := s.next(); t.class != endOfText && t.line <= line; t = s.next() {
		if t.line == line && t.column <= column && t.class != endOfLine {
			begins = t.column
		}
	}
	return begins
}
