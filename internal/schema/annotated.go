// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/annotation"
)

// Annotations of other tools (package annotation) appear in the advertised schema alone. Their texts take the place of
// missing comments. In an input, their limits become keywords and the rest of what they say sentences: they are what the
// service's authors ask of callers, but nobody knows whether the service refuses what breaks them. So the sidecar does not
// enforce them, and an output, which the service need not hold to them, does not show them.

// guides reports whether the schema shows callers what annotations ask of them.
func (d *deriver) guides() bool { return d.shown && d.dir == Input }

// annotatedField reads the annotations of a field for the advertised schema.
func (d *deriver) annotatedField(fd protoreflect.FieldDescriptor) annotation.Field {
	if !d.shown || !hasOptions(fd) {
		return annotation.Field{}
	}
	said, problems := annotation.OfField(fd)
	for _, p := range problems {
		d.note("field %s: %s", fd.FullName(), p)
	}
	return said
}

// annotatedMessage is annotatedField for a message.
func (d *deriver) annotatedMessage(md protoreflect.MessageDescriptor) annotation.Message {
	if !d.shown || !hasOptions(md) {
		return annotation.Message{}
	}
	said, problems := annotation.OfMessage(md)
	for _, p := range problems {
		d.note("message %s: %s", md.FullName(), p)
	}
	return said
}

// enumWords are the description or the title that an annotation of an enum has.
func (d *deriver) enumWords(ed protoreflect.EnumDescriptor) string {
	if !d.shown || !hasOptions(ed) {
		return ""
	}
	said, problems := annotation.OfEnum(ed)
	for _, p := range problems {
		d.note("enum %s: %s", ed.FullName(), p)
	}
	return cmp.Or(strings.TrimSpace(said.Description), strings.TrimSpace(said.Title))
}

// fieldOf is a field with what the annotations of its message say of it.
func (d *deriver) fieldOf(fd protoreflect.FieldDescriptor, of annotation.Message) field {
	f := d.newField(fd)
	if !d.guides() {
		return f
	}
	if slices.Contains(of.Required, fd.JSONName()) || slices.Contains(of.Required, string(fd.Name())) {
		f.require()
	}
	if of.Resource != nil && of.Resource.NameField == string(fd.Name()) {
		f.patterns = of.Resource.Patterns
	}
	return f
}

// require makes the field required, unless it is one of several that exclude each other.
func (f *field) require() {
	if od := f.fd.ContainingOneof(); od == nil || od.IsSynthetic() {
		f.must = true
	}
}

// IsRequired reports whether the advertised schema of an input requires the field.
func IsRequired(fd protoreflect.FieldDescriptor) bool {
	d := &deriver{dir: Input, needs: new(Needs), shown: true}
	return d.fieldOf(fd, d.annotatedMessage(fd.ContainingMessage())).must
}

// words are what Options.Words have for a field, else its comment, else the description or the title that an annotation has.
func (f field) words() string {
	return cmp.Or(f.given, Comment(f.fd), strings.TrimSpace(f.said.Description), strings.TrimSpace(f.said.Title))
}

// messageWords are the comment of a message, else the description or the title that an annotation has.
func messageWords(md protoreflect.MessageDescriptor, said annotation.Message) string {
	return cmp.Or(Comment(md), strings.TrimSpace(said.Description), strings.TrimSpace(said.Title))
}

// guide adds what the annotations of a field say beside its limits: keywords to the schema where the profile has them, and
// the sentences that it returns.
func (d *deriver) guide(doc *object, f field) string {
	if !d.guides() {
		return ""
	}
	said := f.said
	lines := d.resourceText(f)
	lines = append(lines, d.formatWords(doc, f))
	if said.Pattern != "" {
		lines = append(lines, "Must match "+said.Pattern+".")
	}
	if said.MultipleOf != nil {
		lines = append(lines, "A multiple of "+strconv.FormatFloat(*said.MultipleOf, 'g', -1, 64)+".")
	}
	isStrict := d.opts.Profile == ProfileStrict
	if said.ReadOnly {
		if isStrict {
			lines = append(lines, "Set by the service.")
		} else {
			doc.set("readOnly", true)
		}
	}
	if text := protoDefault(f.fd); text != "" {
		if value, ok := normalExample(f.fd, text); ok && !isStrict {
			doc.set("default", value)
		}
		lines = append(lines, "Default: "+text+".") // also for clients that drop the keyword
	} else if said.Default != "" {
		if value, ok := normalExample(f.fd, said.Default); ok && !isStrict {
			doc.set("default", value)
		} else {
			lines = append(lines, "Default: "+said.Default+".")
		}
	}
	if examples := d.fieldExamples(doc, f); len(examples) > 0 {
		if isStrict {
			lines = append(lines, exampleText(examples))
		} else {
			doc.set("examples", examples)
		}
	}
	return strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n")
}

// maxDefault bounds the default of a field that is shown, in bytes.
const maxDefault = 256

// protoDefault is the default that a field of proto2 declares, as callers write it: it is the value that the service has for
// an absent field. It is empty if there is none, or it is too long to show.
func protoDefault(fd protoreflect.FieldDescriptor) string {
	if !fd.HasDefault() {
		return ""
	}
	text := fd.Default().String()
	switch fd.Kind() {
	case protoreflect.EnumKind:
		text = string(fd.DefaultEnumValue().Name())
	case protoreflect.BytesKind:
		text = base64.StdEncoding.EncodeToString(fd.Default().Bytes())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if value := fd.Default().Float(); math.IsInf(value, 0) {
			text = strings.TrimPrefix(strings.Replace(text, "Inf", "Infinity", 1), "+")
		}
	}
	if len(text) > maxDefault {
		return ""
	}
	return text
}

// formatWords shows the format of a string: as a keyword where clients know it, else in words.
func (d *deriver) formatWords(doc *object, f field) string {
	format := f.said.Format
	if format == annotation.FormatIP {
		return "An IPv4 or IPv6 address."
	}
	if format == "" || f.fd.Kind() != protoreflect.StringKind || doc.has("format") {
		return "" // of other types, the type says it
	}
	switch format {
	case "uuid", "email", "uri", "uri-reference", "hostname", "ipv4", "ipv6":
		if !f.fd.IsList() && !f.fd.IsMap() && d.opts.Profile != ProfileStrict {
			doc.set("format", format)
			return ""
		}
	}
	return "Format: " + format + "."
}

// maxPatterns is how many patterns of a resource's names a description has.
const maxPatterns = 3

// resourceText says which resource a field names, and the form of the name, unless the comment has it.
func (d *deriver) resourceText(f field) []string {
	said, patterns := f.said, f.patterns
	subject := "Resource name"
	switch {
	case said.Resource == "*":
		return []string{"Resource name of any type."}
	case said.Resource != "":
		subject, patterns = "Resource name of a "+said.Resource, d.patternsOf(f.fd, said.Resource)
	case said.ChildResource != "":
		subject, patterns = "Resource name of the parent of a "+said.ChildResource, parents(d.patternsOf(f.fd, said.ChildResource))
	case len(patterns) == 0:
		return nil
	}
	comment := f.words()
	patterns = slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return p == "" || p == "*" })
	if slices.ContainsFunc(patterns, func(p string) bool { return strings.Contains(comment, p) }) {
		patterns = nil
	}
	if len(patterns) == 0 {
		if said.Resource == "" && said.ChildResource == "" {
			return nil
		}
		return []string{subject + "."}
	}
	return []string{subject + ", in the form " + strings.Join(patterns[:min(len(patterns), maxPatterns)], " or ") + "."}
}

// patternsOf are the forms of the names of a resource type that the field's file, or one that it imports, declares.
func (d *deriver) patternsOf(fd protoreflect.FieldDescriptor, resource string) []string {
	file := fd.ParentFile()
	if file == nil {
		return nil
	}
	if d.resources == nil {
		d.resources = map[string]map[string][]string{}
	}
	known, ok := d.resources[file.Path()]
	if !ok {
		known = annotation.Patterns(file)
		d.resources[file.Path()] = known
	}
	return known[resource]
}

// parents are the patterns of the parents: without the last collection and its ID.
func parents(patterns []string) []string {
	var out []string
	for _, p := range patterns {
		segments := strings.Split(p, "/")
		if len(segments) > 2 {
			if parent := strings.Join(segments[:len(segments)-2], "/"); !slices.Contains(out, parent) {
				out = append(out, parent)
			}
		}
	}
	return out
}

// exampleText is a line with examples.
func exampleText(examples []any) string {
	raw := bytes.Trim(appendJSON(nil, examples), "[]")
	if len(examples) == 1 {
		raw = appendJSON(nil, examples[0])
	}
	return fmt.Sprintf("Example: %s", raw)
}

// showResults gives the schema of a result its examples: those of its operation, then those of its message. Unlike those of an
// input, they are checked against all of the schema, which is complete. The messages below it have none: a model has to know
// what to send in each place, but one answer shows what answers look like.
func (d *deriver) showResults(doc *object, md protoreflect.MessageDescriptor) {
	if !d.shown || d.dir != Output || d.stream != nil || d.opts.WithoutDescriptions || d.opts.Profile == ProfileStrict || isWrapped(md, Output) {
		return
	}
	texts := slices.Concat(d.opts.Examples, d.annotatedMessage(md).Examples)
	if len(texts) == 0 {
		return
	}
	subject := "message " + string(md.FullName())
	examples := d.someExamples(doc, texts, subject, maxResultExamples, d.takesWhole, func(text string) (json.RawMessage, bool) {
		return normalMessage(md, text, Output)
	})
	if len(examples) == 0 {
		return
	}
	before := len(appendJSON(nil, doc))
	doc.set("examples", examples)
	if room := d.opts.ExampleRoom; room > 0 && before <= room && len(appendJSON(nil, doc)) > room {
		doc.remove("examples")
		d.note("%s: an example is omitted: with it the schema would have more than %d bytes, and lists would leave it out", subject, room)
	}
}

// messageExamples are the examples of a message that an input shows.
func (d *deriver) messageExamples(doc *object, md protoreflect.MessageDescriptor, of annotation.Message) []any {
	if !d.guides() || d.opts.WithoutDescriptions || d.opts.Profile == ProfileStrict {
		return nil
	}
	return d.examples(doc, of.Examples, "message "+string(md.FullName()), func(text string) (json.RawMessage, bool) {
		return normalMessage(md, text, Input)
	})
}

// fieldExamples are the examples of a field that an input shows. In the strict profile, objects can be shown as text, so
// examples of them would mislead.
func (d *deriver) fieldExamples(doc *object, f field) []any {
	if d.opts.WithoutDescriptions || d.opts.Profile == ProfileStrict && f.fd.Message() != nil {
		return nil
	}
	return d.examples(doc, f.said.Examples, "field "+string(f.fd.FullName()), func(text string) (json.RawMessage, bool) {
		return normalExample(f.fd, text)
	})
}
