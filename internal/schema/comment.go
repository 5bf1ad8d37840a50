// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxDescription bounds one description, in characters: a model reads all of them on every turn.
const maxDescription = 1024

// Comment returns the comment of a descriptor in the .proto file, without parts meant for tools: lint directives and
// AIP's internal comments, "(-- ... --)". It is empty if the descriptor has no source information. Comments of the well-known
// types are for programmers, and say nothing of the service that uses them: they do not count.
func Comment(d protoreflect.Descriptor) string {
	file := d.ParentFile()
	if file == nil || strings.HasPrefix(string(d.FullName()), "google.protobuf.") {
		return ""
	}
	locations := file.SourceLocations()
	if locations.Len() == 0 { // as reflection has it: then there is no need to work out the path to d
		return ""
	}
	loc := locations.ByDescriptor(d)
	text := loc.LeadingComments
	if strings.TrimSpace(text) == "" {
		text = loc.TrailingComments
	}
	return cleanComment(text)
}

func cleanComment(text string) string {
	for {
		before, rest, ok := strings.Cut(text, "(--")
		if !ok {
			break
		}
		_, after, _ := strings.Cut(rest, "--)")
		text = before + after
	}
	var paragraphs []string
	var current []string
	flush := func() {
		if len(current) > 0 {
			paragraphs = append(paragraphs, strings.Join(current, " "))
			current = nil
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			flush()
		case isDirective(line):
		case strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* "):
			flush()
			current = append(current, line)
		default:
			current = append(current, line)
		}
	}
	flush()
	return strings.Join(paragraphs, "\n")
}

// isDirective recognises the lines that linters and generators read.
func isDirective(line string) bool {
	for _, prefix := range []string{
		"buf:lint:", "buf:", "protolint:", "api-linter:", "@exclude", "@ignore", "nolint", "clang-format", "copybara:",
	} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// describe joins the parts of a description, bounded.
func (d *deriver) describe(o *object, parts ...string) {
	if d.opts.WithoutDescriptions {
		return
	}
	kept := parts[:0:0]
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" {
			kept = append(kept, p)
		}
	}
	if len(kept) == 0 {
		return
	}
	text := []rune(strings.Join(kept, "\n"))
	if len(text) > maxDescription {
		text = append(text[:maxDescription-1:maxDescription-1], '…')
	}
	o.set("description", string(text))
}

// valueComments lists what the file says about the values of an enum.
func (d *deriver) valueComments(values []protoreflect.EnumValueDescriptor) string {
	var lines []string
	for _, v := range values {
		text := strings.ReplaceAll(Comment(v), "\n", " ")
		if d.isBrief() && repeats(text, string(v.Name())) {
			text = ""
		}
		if isDeprecated(v) {
			text = strings.TrimSpace("Deprecated. " + text)
		}
		if text != "" {
			lines = append(lines, fmt.Sprintf("%s: %s", v.Name(), text))
		}
	}
	return strings.Join(lines, "\n")
}

// isDeprecated reads the option, which descriptor.proto declares for every kind of descriptor under the same name.
func isDeprecated(d protoreflect.Descriptor) bool {
	options := d.Options()
	if options == nil {
		return false
	}
	m := options.ProtoReflect()
	fd := m.Descriptor().Fields().ByName("deprecated")
	return fd != nil && m.Get(fd).Bool()
}
