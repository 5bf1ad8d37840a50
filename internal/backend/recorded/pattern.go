// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"regexp/syntax"
	"strings"
)

// maxPattern bounds the text that is invented for a pattern.
const maxPattern = 4 << 10

// matching invents a text that matches a pattern, empty for one that is none.
func (v *inventor) matching(pattern string) string {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	var out strings.Builder
	v.match(&out, parsed.Simplify(), 0)
	return out.String()
}

// match appends a text that matches.
func (v *inventor) match(out *strings.Builder, re *syntax.Regexp, depth int) {
	if out.Len() > maxPattern || depth > maxNesting {
		return
	}
	sub := func(i int) { v.match(out, re.Sub[i], depth+1) }
	repeat := func(least, most int) {
		for range least + v.IntN(most-least+1) {
			sub(0)
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		out.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		out.WriteRune(v.oneOf(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		out.WriteRune(rune('a' + v.IntN(26)))
	case syntax.OpStar:
		repeat(0, v.repeats())
	case syntax.OpPlus:
		repeat(1, 1+v.repeats())
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpRepeat:
		most := re.Max
		if most < 0 || most > re.Min+v.repeats() {
			most = re.Min + v.repeats()
		}
		repeat(re.Min, most)
	case syntax.OpCapture, syntax.OpConcat:
		for i := range re.Sub {
			sub(i)
		}
	case syntax.OpAlternate:
		sub(v.IntN(len(re.Sub)))
	}
}

// repeats is how often what may repeat does at most: more in later attempts, where a length may have been missed.
func (v *inventor) repeats() int { return 3 << (v.attempt % 6) }

// oneOf chooses a character of a class, given by pairs: a letter or digit if it has some, else one that can be seen.
func (v *inventor) oneOf(pairs []rune) rune {
	var good, fair []rune
	for i := 0; i+1 < len(pairs); i += 2 {
		for r := max(pairs[i], ' '); r <= min(pairs[i+1], '~'); r++ {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				good = append(good, r)
			} else {
				fair = append(fair, r)
			}
		}
	}
	switch {
	case len(good) > 0:
		return good[v.IntN(len(good))]
	case len(fair) > 0:
		return fair[v.IntN(len(fair))]
	case len(pairs) == 0:
		return 'a'
	}
	return pairs[0]
}
