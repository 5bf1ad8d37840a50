// SPDX-License-Identifier: Apache-2.0

package search

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWord is the maximum size of a word in bytes. The rest of a longer one is a word by itself.
const maxWord = 48

// words returns the words of a text in lower case. They end where letters and digits end, and where camel case begins a
// new one: "ListTables2", "list_tables2" and "list tables 2" are the same words.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			start := strings.IndexFunc(text, isWordRune)
			if start < 0 {
				return
			}
			text = text[start:]
			n := wordEnd(text)
			if !yield(strings.ToLower(text[:n])) {
				return
			}
			text = text[n:]
		}
	}
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// wordEnd returns where the word ends that text begins with.
func wordEnd(text string) int {
	before, size := utf8.DecodeRuneInString(text)
	for at := size; at < len(text); {
		r, n := utf8.DecodeRuneInString(text[at:])
		switch {
		case !isWordRune(r), at+n > maxWord, unicode.IsUpper(r) && !unicode.IsUpper(before), unicode.IsDigit(r) != unicode.IsDigit(before):
			return at
		case unicode.IsUpper(r):
			// The last capital of "JSONWeb" begins a word; that of "SLOs" does not.
			next, _ := utf8.DecodeRuneInString(text[at+n:])
			if unicode.IsLower(next) && !isPlural(text[at+n:]) {
				return at
			}
		}
		before, at = r, at+n
	}
	return len(text)
}

// isPlural reports whether all that is left of a word is an "s".
func isPlural(rest string) bool {
	if !strings.HasPrefix(rest, "s") {
		return false
	}
	r, _ := utf8.DecodeRuneInString(rest[1:])
	return !isWordRune(r)
}

// minStem is the number of letters that a stem must have left.
const minStem = 3

// stem reduces the forms of an English word to one: "backups" to "backup", "creating" and "creation" to what "create"
// becomes. It is light: it removes inflections and the most common derivations. A stem need not be a word.
func stem(word string) string {
	switch word {
	case "used", "uses", "using", "usage":
		return "use"
	case "diff", "diffs", "differ", "difference", "differences":
		return "differ"
	}
	if !isASCII(word) || len(word) <= minStem {
		return word
	}
	switch word {
	case "settings", "setting":
		return "setting" // not what one sets, but what is set
	case "status", "alias", "access", "this", "https", "redis", "kubernetes", "news":
		return word
	}
	word = strings.TrimSuffix(word, "'s")
	word = singular(word)
	word = strings.TrimSuffix(word, "ship")
	word = withoutPast(word)
	word = derived(word)
	if n := len(word); n > minStem && word[n-1] == 'e' {
		word = word[:n-1]
	}
	if n := len(word); n > minStem+1 && word[n-1] == 'l' && word[n-2] == 'l' {
		word = word[:n-1] // cancelled, cancel
	}
	if n := len(word); n > minStem+1 && strings.HasSuffix(word, "is") {
		word = word[:n-1] + "z" // authorise, authorize
	}
	return word
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func singular(w string) string {
	n := len(w)
	switch {
	case strings.HasSuffix(w, "ies") && n > minStem+1:
		return w[:n-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"):
		return w[:n-2]
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "s") && n > minStem:
		return w[:n-1]
	}
	return w
}

// withoutPast removes the endings -ing and -ed.
func withoutPast(w string) string {
	if base, ok := strings.CutSuffix(w, "ied"); ok && len(base) >= minStem-1 {
		return base + "y"
	}
	base, ok := strings.CutSuffix(w, "ing")
	if !ok {
		base, ok = strings.CutSuffix(w, "ed")
	}
	if !ok || len(base) < minStem || !strings.ContainsAny(base, "aeiouy") {
		return w
	}
	if n := len(base); n > minStem && base[n-1] == base[n-2] && !strings.ContainsRune("lsz", rune(base[n-1])) {
		return base[:n-1] // running
	}
	return base
}

// derived removes the endings -ically, -ic, -ization, -ation, -ate, -ion and -ment.
func derived(w string) string {
	w = strings.TrimSuffix(w, "ally")
	if base, ok := strings.CutSuffix(w, "ic"); ok && len(base) > minStem+1 {
		return base
	}
	// Of short words the same is left of all forms by what follows: "creat" of create, creating and creation.
	for _, ending := range []string{"ation", "at", "ate"} {
		if base, ok := strings.CutSuffix(w, ending); ok && len(base) > minStem {
			return base
		}
	}
	if base, ok := strings.CutSuffix(w, "ion"); ok && len(base) > minStem && strings.ContainsRune("st", rune(base[len(base)-1])) {
		return base
	}
	if base, ok := strings.CutSuffix(w, "ment"); ok && len(base) > minStem {
		return base
	}
	return w
}

// isParticiple reports whether a word is a form of a verb that describes something: "a deleted table", "a running job".
func isParticiple(word string) bool {
	return len(word) > minStem+1 && (strings.HasSuffix(word, "ed") || strings.HasSuffix(word, "ing")) && stem(word) != word
}

func abs(n int) int { return max(n, -n) }

// distance is the number of errors between two words: letters that are missing, extra, wrong, or exchanged with the next
// one. It is at least most+1 if there are more than that. Words are at most maxWord bytes long.
func distance(a, b string, most int) int {
	if len(a) > maxWord || len(b) > maxWord {
		return most + 1
	}
	var rows [3][maxWord + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > most {
			return most + 1
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
