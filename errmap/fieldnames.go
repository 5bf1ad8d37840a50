// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Bounds of the names that are looked for in a backend's text, and of those that are explained.
const (
	maxKnownFields  = 2048
	maxNamesPerText = 10
)

// argumentNames are the fields of a request, and of the messages in it, by their names in the .proto file, where JSON has
// another one. A backend knows only the former, a model only the latter.
type argumentNames map[string]string

func argumentNamesOf(md protoreflect.MessageDescriptor) argumentNames {
	names := argumentNames{}
	if md == nil {
		return names
	}
	seen := map[protoreflect.FullName]bool{md.FullName(): true}
	count := 0
	for queue := []protoreflect.MessageDescriptor{md}; len(queue) > 0; queue = queue[1:] {
		fields := queue[0].Fields()
		for i := range fields.Len() {
			if count++; count > maxKnownFields {
				return names
			}
			fd := fields.Get(i)
			name := string(fd.Name())
			if _, known := names[name]; !known && fd.JSONName() != name {
				names[name] = fd.JSONName()
			}
			if fd.IsMap() {
				fd = fd.MapValue()
			}
			if below := fd.Message(); below != nil && !seen[below.FullName()] && below.ParentFile().Package() != "google.protobuf" {
				seen[below.FullName()] = true
				queue = append(queue, below)
			}
		}
	}
	return names
}

// explain adds to each field that a text names the name of its argument, once: "page_token (argument pageToken) is not valid".
// A name that could be any word, without an underscore, is a field's only in quotes.
func (names argumentNames) explain(text string) string {
	if len(names) == 0 {
		return text
	}
	var out strings.Builder
	told := map[string]bool{}
	from := 0
	eachWord(text, func(start, end int) {
		word := text[start:end]
		argument, ok := names[word]
		if !ok || told[word] || len(told) == maxNamesPerText || !strings.Contains(word, "_") && !isQuoted(text, start, end) || hasWord(text, argument) {
			return
		}
		told[word] = true
		if isQuoted(text, start, end) {
			end++
		}
		out.WriteString(text[from:end] + " (argument " + clip(argument, maxNameBytes) + ")")
		from = end
	})
	out.WriteString(text[from:])
	return out.String()
}

// path is explain for the path of a field.
func (names argumentNames) path(path string) string {
	var out strings.Builder
	from := 0
	eachWord(path, func(start, end int) {
		if argument, ok := names[path[start:end]]; ok {
			out.WriteString(path[from:start] + argument)
			from = end
		}
	})
	if from == 0 {
		return path
	}
	out.WriteString(path[from:])
	return path + " (argument " + clip(out.String(), maxNameBytes) + ")"
}

// eachWord calls each with the bounds of what could be a field's name.
func eachWord(text string, each func(start, end int)) {
	start := -1
	for i := range len(text) + 1 {
		isPart := i < len(text) && (text[i] == '_' || text[i] >= 0x80 ||
			'a' <= text[i] && text[i] <= 'z' || 'A' <= text[i] && text[i] <= 'Z' || '0' <= text[i] && text[i] <= '9')
		switch {
		case isPart && start < 0:
			start = i
		case !isPart && start >= 0:
			each(start, i)
			start = -1
		}
	}
}

func isQuoted(text string, start, end int) bool {
	return start > 0 && end < len(text) && text[start-1] == text[end] && strings.IndexByte("\"'`", text[end]) >= 0
}

func hasWord(text, word string) (has bool) {
	eachWord(text, func(start, end int) { has = has || text[start:end] == word })
	return has
}
