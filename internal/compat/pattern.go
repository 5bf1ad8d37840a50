// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode"
)

const (
	// maxPatternStates bounds the comparison of two patterns. The longest derived one, the range of a 64-bit integer in all
	// spellings of a number, needs some hundred.
	maxPatternStates = 4_000
	// maxPatternWork bounds the instructions that are followed for one comparison: some 20 ms.
	maxPatternWork = 1_000_000
	// maxPatternBytes bounds what is compiled at all.
	maxPatternBytes = 4_096
)

// patternsWithin reports whether every string that one pattern finds is found by the other too. known is false where
// that cannot be told: a pattern that is not in the part of the syntax that RE2 and ECMA 262 share, or one beyond the
// bounds. work is what it took to tell.
func patternsWithin(one, other string) (within, known bool, work int) {
	a, okA := compileAutomaton(one)
	b, okB := compileAutomaton(other)
	if !okA || !okB {
		return false, false, 0
	}
	within, known = walkTogether(a, b)
	return within, known, a.work + b.work
}

// automaton is a pattern as a set of instructions that are walked in parallel.
type automaton struct {
	insts []syntax.Inst
	start uint32
	// work counts the instructions that were followed.
	work int
}

func compileAutomaton(pattern string) (*automaton, bool) {
	if len(pattern) > maxPatternBytes {
		return nil, false
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, false
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, false
	}
	for _, inst := range prog.Inst {
		if inst.Op == syntax.InstEmptyWidth && syntax.EmptyOp(inst.Arg)&^(syntax.EmptyBeginText|syntax.EmptyEndText) != 0 {
			return nil, false // words and lines
		}
	}
	return &automaton{insts: prog.Inst, start: uint32(prog.Start)}, true
}

// states is a sorted set of instructions that take a rune, or match.
type states []uint32

// enter follows instructions that take nothing from the given ones on.
func (a *automaton) enter(from []uint32, atBegin, atEnd bool) states {
	seen := make(map[uint32]bool)
	var out states
	stack := slices.Clone(from)
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		a.work++
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch inst := a.insts[pc]; inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, inst.Out)
		case syntax.InstEmptyWidth:
			op := syntax.EmptyOp(inst.Arg)
			if op&syntax.EmptyBeginText != 0 && !atBegin {
				continue
			}
			if op&syntax.EmptyEndText != 0 && !atEnd {
				out = append(out, pc) // It may come true after the last rune.
				continue
			}
			stack = append(stack, inst.Out)
		case syntax.InstFail:
		default:
			out = append(out, pc)
		}
	}
	slices.Sort(out)
	return out
}

// step is where a rune leads. A pattern is found anywhere in a string, so it may also begin at every rune.
func (a *automaton) step(s states, r rune, hasMatched bool) states {
	if hasMatched {
		return s
	}
	var next []uint32
	a.work += len(s)
	for _, pc := range s {
		if inst := &a.insts[pc]; inst.Op != syntax.InstEmptyWidth && inst.Op != syntax.InstMatch && inst.MatchRune(r) {
			next = append(next, inst.Out)
		}
	}
	return a.enter(append(next, a.start), false, false)
}

// matched reports whether the pattern has been found, whatever follows.
func (a *automaton) matched(s states) bool {
	return slices.ContainsFunc(s, func(pc uint32) bool { return a.insts[pc].Op == syntax.InstMatch })
}

// matchesAtEnd reports whether the pattern is found if the string ends here.
func (a *automaton) matchesAtEnd(s states, atBegin bool) bool {
	return a.matched(s) || a.matched(a.enter(s, atBegin, true))
}

// pair is what both patterns have come to after the same string.
type pair struct {
	a, b           states
	aFound, bFound bool
	nothingWasRead bool
}

func (p pair) key() string {
	raw := []byte{byte(boolRank(p.aFound)), byte(boolRank(p.bFound)), byte(boolRank(p.nothingWasRead))}
	for _, s := range [...]states{p.a, p.b} {
		raw = binary.AppendUvarint(raw, uint64(len(s)))
		for _, pc := range s {
			raw = binary.AppendUvarint(raw, uint64(pc))
		}
	}
	return string(raw)
}

// walkTogether looks for a string that a finds and b does not.
func walkTogether(a, b *automaton) (within, known bool) {
	runes := representatives(a, b)
	start := pair{a: a.enter([]uint32{a.start}, true, false), b: b.enter([]uint32{b.start}, true, false), nothingWasRead: true}
	start.aFound, start.bFound = a.matched(start.a), b.matched(start.b)
	seen := map[string]bool{start.key(): true}
	for queue := []pair{start}; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		if p.bFound {
			continue // b finds everything from here on
		}
		if (p.aFound || a.matchesAtEnd(p.a, p.nothingWasRead)) && !b.matchesAtEnd(p.b, p.nothingWasRead) {
			return false, true
		}
		for _, r := range runes {
			next := pair{a: a.step(p.a, r, p.aFound), b: b.step(p.b, r, p.bFound), aFound: p.aFound, bFound: p.bFound}
			next.aFound = next.aFound || a.matched(next.a)
			next.bFound = next.bFound || b.matched(next.b)
			key := next.key()
			if a.work+b.work > maxPatternWork {
				return false, false
			}
			if seen[key] {
				continue
			}
			if len(seen) >= maxPatternStates {
				return false, false
			}
			seen[key] = true
			queue = append(queue, next)
		}
	}
	return true, true
}

// representatives has one rune of every class of runes that no instruction tells apart.
func representatives(automata ...*automaton) []rune {
	cuts := []rune{0}
	add := func(lo, hi rune) { cuts = append(cuts, lo, hi+1) }
	for _, a := range automata {
		for i := range a.insts {
			inst := &a.insts[i]
			switch inst.Op {
			case syntax.InstRuneAnyNotNL:
				add('\n', '\n')
			case syntax.InstRune, syntax.InstRune1:
				if len(inst.Rune) == 1 { // a single rune, which may stand for its other cases too
					r := inst.Rune[0]
					add(r, r)
					for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
						add(f, f)
					}
					continue
				}
				for j := 0; j+1 < len(inst.Rune); j += 2 {
					add(inst.Rune[j], inst.Rune[j+1])
				}
			}
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	return slices.DeleteFunc(cuts, func(r rune) bool { return r > unicode.MaxRune })
}
