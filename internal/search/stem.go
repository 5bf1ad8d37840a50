// SPDX-License-Identifier: Apache-2.0

package search

import "strings"

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
