// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// maxWork bounds what checking one document may cost, in steps. A step is what the validator takes to put one schema to one
// value, some hundred nanoseconds. A document of DefaultMaxValues values may have each of them checked sixteen times.
const maxWork = 1 << 22

const (
	workBetweenLooks = 1 << 12 // steps between two looks at the context
	longText         = 1 << 16 // bytes above which a pattern is matched piece by piece
	bytesPerStep     = 16      // of a text that a small pattern reads
	longMatch        = 1 << 16 // instructions times bytes above which the context is looked at after a match
)

// ErrTooMuchWork means that a check was ended because it takes more work than one check may.
var ErrTooMuchWork = errors.New("schema: the check takes too much work")

// Budget is the work that one check has left. It also hears the context: whatever spends from a budget ends soon after the
// context does. It belongs to one goroutine.
type Budget struct {
	ctx           context.Context //nolint:containedctx // a budget lives as long as one check
	left, unheard int
	err           error
}

// NewBudget returns the budget of one check.
func NewBudget(ctx context.Context) *Budget { return &Budget{ctx: ctx, left: maxWork} }

// Err returns why the check has to end: ErrTooMuchWork, or an error that wraps that of the context. It is nil otherwise.
func (b *Budget) Err() error { return b.err }

// Spend takes steps from the budget. It returns false if the check has to end.
func (b *Budget) Spend(steps int) bool { return b.spend(steps) }

// spend takes steps from the budget. It returns false if the check has to end.
func (b *Budget) spend(steps int) bool {
	if b.err != nil {
		return false
	}
	b.left -= steps
	b.unheard += steps
	if b.left < 0 {
		b.err = ErrTooMuchWork
		return false
	}
	return b.unheard < workBetweenLooks || b.look()
}

// look looks at the context.
func (b *Budget) look() bool {
	b.unheard = 0
	if err := b.ctx.Err(); err != nil {
		b.err = fmt.Errorf("schema: check: %w", err)
		return false
	}
	return true
}

// Pattern is a compiled pattern that spends from a budget. It is safe for concurrent use.
type Pattern struct {
	*regexp.Regexp
	size int // instructions
}

// CompilePattern compiles a pattern of RE2.
func CompilePattern(text string) (*Pattern, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what and where
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err //nolint:wrapcheck // likewise
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err //nolint:wrapcheck // likewise
	}
	return &Pattern{Regexp: compiled, size: len(program.Inst)}, nil
}

// Size returns the number of instructions of the pattern.
func (p *Pattern) Size() int { return p.size }

// IsLong reports whether a match takes long enough to need a budget.
func (p *Pattern) IsLong(bytes int) bool { return bytes > longText || bytes*p.size > 16*longMatch }

// MatchWithin is MatchString that spends from a budget. If the budget has ended, the result means nothing.
func (p *Pattern) MatchWithin(b *Budget, text string) bool {
	if len(text) > longText {
		return p.MatchReader(&pieces{budget: b, rest: text, size: p.size}) && b.err == nil
	}
	matches := b.spend(1+len(text)/bytesPerStep) && p.MatchString(text)
	return matches && (len(text)*p.size <= longMatch || b.look())
}

// pieces reads a text, and ends early where the budget does.
type pieces struct {
	budget *Budget
	rest   string
	size   int // instructions of the pattern: each may have to be followed for each character
	read   int // bytes that are not paid for
}

// ReadRune implements io.RuneReader.
func (p *pieces) ReadRune() (r rune, size int, err error) {
	if p.rest == "" {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[size:]
	if p.read += size; p.read*p.size >= workBetweenLooks*bytesPerStep {
		steps := p.read * p.size / bytesPerStep
		p.read = 0
		if !p.budget.spend(steps) {
			p.rest = ""
			return 0, 0, io.EOF
		}
	}
	return r, size, nil
}
