// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// cleanComment removes from a comment what is addressed to tools: lines with directives for linters and generators,
// "(-- ... --)" notes for API reviewers, and everything if the comment begins with @exclude, the mark by which
// documentation generators leave something out. What remains are paragraphs, one blank line apart.
func cleanComment(raw string) string {
	text := cutNotes(shown.Clean(raw))
	var out []string
	blank := false
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \t")
		// One space is what stands between the slashes and the words.
		line = strings.TrimPrefix(line, " ")
		bare := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(bare, "@exclude") && len(out) == 0:
			return ""
		case isDirective(bare):
			continue
		case bare == "":
			blank = len(out) > 0
			continue
		}
		if blank {
			out = append(out, "")
			blank = false
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// cutNotes removes "(-- ... --)" blocks. One that does not end goes on to the comment's end.
func cutNotes(text string) string {
	if !strings.Contains(text, "(--") {
		return text
	}
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "(--")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		_, text, _ = strings.Cut(rest, "--)")
	}
}

// isDirective reports whether a line of a comment speaks to a tool and not to a reader.
func isDirective(line string) bool {
	for _, prefix := range [...]string{
		"buf:lint:", "buf:breaking:", "protolint:", "api-linter:", "@exclude", "nolint", "lint:",
		"clang-format off", "clang-format on", "prettier-ignore", "[#", "+kubebuilder:", "+k8s:", "@gotags:", "@inject_tag:",
	} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// firstSentence is the first sentence of the first paragraph, on one line, without the full stop at its end.
func firstSentence(text string) string {
	paragraph, _, _ := strings.Cut(text, "\n\n")
	line := strings.Join(strings.Fields(paragraph), " ")
	for i := 0; i < len(line); i++ {
		if !strings.ContainsRune(".!?", rune(line[i])) {
			continue
		}
		atEnd := i+1 == len(line)
		if !atEnd && (line[i+1] != ' ' || isAbbreviation(line[:i])) {
			continue
		}
		if line[i] == '.' {
			return line[:i]
		}
		return line[:i+1]
	}
	return strings.TrimSuffix(line, ":")
}

// isAbbreviation reports whether the text ends in a word whose full stop ends no sentence.
func isAbbreviation(text string) bool {
	word := text[strings.LastIndexAny(text, " (")+1:]
	switch strings.ToLower(word) {
	case "e.g", "i.e", "etc", "cf", "vs", "approx", "no", "resp":
		return true
	}
	return false
}

// cutRunes shortens a line to the limit, at a word's end where there is one in its second half, and marks the cut.
func cutRunes(line string, most int) string {
	if utf8.RuneCountInString(line) <= most {
		return line
	}
	kept := string([]rune(line)[:most-1])
	if i := strings.LastIndexByte(kept, ' '); i > len(kept)/2 {
		kept = kept[:i]
	}
	return kept + "…"
}

// oneLine is the text of a joined error on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
