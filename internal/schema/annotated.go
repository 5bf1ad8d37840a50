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
	"unicode"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Annotations of other tools (package annotation) appear in the advertised schema alone. Their texts take the place of
// missing comments. In an input, their limits become keywords and the rest of what they say sentences: they are what the
// service's authors ask of callers, but no one knows whether the service refuses what breaks them. So the sidecar does not
// enforce them, and an output, which the service need not hold to them, does not show them.

// guides reports whether the schema shows callers what annotations ask of them.
func (d *deriver) guides() bool { return d.shown && d.dir == Input }

// annotatedField reads the annotations of a field for the advertised schema.
func (d *deriver) annotatedField(fd protoreflect.FieldDescriptor) FieldAnnotations {
	if !d.shown || !hasOptions(fd) {
		return FieldAnnotations{}
	}
	said, bad := AnnotationsOfField(fd)
	d.noteAll("field", fd, bad)
	return said
}

// annotatedMessage is annotatedField for a message.
func (d *deriver) annotatedMessage(md protoreflect.MessageDescriptor) MessageAnnotations {
	if !d.shown || !hasOptions(md) {
		return MessageAnnotations{}
	}
	said, bad := AnnotationsOfMessage(md)
	d.noteAll("message", md, bad)
	return said
}

// noteAll notes what is wrong with the annotations of a descriptor.
func (d *deriver) noteAll(kind string, of protoreflect.Descriptor, bad []string) {
	for _, p := range bad {
		d.note("%s %s: %s", kind, of.FullName(), p)
	}
}

// enumWords are the description or the title that an annotation of an enum has.
func (d *deriver) enumWords(ed protoreflect.EnumDescriptor) string {
	if !d.shown || !hasOptions(ed) {
		return ""
	}
	said, bad := annotationsOfEnum(ed)
	d.noteAll("enum", ed, bad)
	return cmp.Or(strings.TrimSpace(said.Description), strings.TrimSpace(said.Title))
}

// fieldOf is a field with what the annotations of its message say of it.
func (d *deriver) fieldOf(fd protoreflect.FieldDescriptor, of MessageAnnotations) field {
	f := d.newField(fd)
	d.look(&f)
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
	return cmp.Or(f.given, comment(f.fd), strings.TrimSpace(f.said.Description), strings.TrimSpace(f.said.Title))
}

// messageWords are the comment of a message, else the description or the title that an annotation has.
func messageWords(md protoreflect.MessageDescriptor, said MessageAnnotations) string {
	return cmp.Or(comment(md), strings.TrimSpace(said.Description), strings.TrimSpace(said.Title))
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
	if format == formatIP {
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
		known = resourcePatterns(file)
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
	if d.opts.Sight != nil {
		return
	}
	if !d.shown || d.dir != Output || d.stream != nil || d.opts.WithoutDescriptions || d.opts.Profile == ProfileStrict || IsWrapped(md, Output) {
		return
	}
	texts := slices.Concat(d.opts.Examples, d.annotatedMessage(md).Examples)
	if len(texts) == 0 {
		return
	}
	subject := "message " + string(md.FullName())
	examples := d.examples(doc, texts, subject, maxResultExamples, d.takesWhole, func(text string) (json.RawMessage, bool) {
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
func (d *deriver) messageExamples(doc *object, md protoreflect.MessageDescriptor, of MessageAnnotations) []any {
	if !d.guides() || d.opts.WithoutDescriptions || d.opts.Profile == ProfileStrict {
		return nil
	}
	return d.examples(doc, of.Examples, "message "+string(md.FullName()), maxExamples, d.takes, func(text string) (json.RawMessage, bool) {
		return normalMessage(md, text, Input)
	})
}

// fieldExamples are the examples of a field that an input shows. In the strict profile, objects can be shown as text, so
// examples of them would mislead.
func (d *deriver) fieldExamples(doc *object, f field) []any {
	if d.opts.WithoutDescriptions || d.opts.Profile == ProfileStrict && f.fd.Message() != nil {
		return nil
	}
	return d.examples(doc, f.said.Examples, "field "+string(f.fd.FullName()), maxExamples, d.takes, func(text string) (json.RawMessage, bool) {
		return normalExample(f.fd, text)
	})
}

// Field numbers of the option extensions that are read. They are fixed in Protobuf's registry of extensions.
const (
	fieldBehaviorNumber = 1052 // google.api.field_behavior
	validateNumber      = 1159 // buf.validate.field, .message and .oneof
)

// Values of google.api.FieldBehavior (AIP-203).
const (
	behaviorRequired   = 2
	behaviorOutputOnly = 3
	behaviorInputOnly  = 4
)

// Behavior is what google.api.field_behavior declares for a field. Values with no effect on a schema are left out.
type Behavior struct {
	Required, OutputOnly, InputOnly bool
}

// BehaviorOf reads google.api.field_behavior from the raw bytes of the field's options, so that it is found whether or
// not the annotation's generated code is linked in. An option that cannot be read is ignored.
func BehaviorOf(fd protoreflect.FieldDescriptor) Behavior {
	var b Behavior
	note := func(v uint64) {
		b.Required = b.Required || v == behaviorRequired
		b.OutputOnly = b.OutputOnly || v == behaviorOutputOnly
		b.InputOnly = b.InputOnly || v == behaviorInputOnly
	}
	eachAnnotation(fd, func(it item) {
		switch {
		case it.number != fieldBehaviorNumber:
		case it.typ == protowire.VarintType:
			note(it.bits)
		default: // packed
			for rest := it.bytes; len(rest) > 0; {
				v, n := protowire.ConsumeVarint(rest)
				if n < 0 {
					return
				}
				note(v)
				rest = rest[n:]
			}
		}
	})
	return b
}

// Hides reports whether the behavior removes the field from one direction.
func (b Behavior) Hides(dir Direction) bool {
	return dir == Input && b.OutputOnly || dir == Output && b.InputOnly
}

// readRules merges the occurrences of protovalidate's option into rules and says whether there was one.
func readRules(d protoreflect.Descriptor, rules proto.Message) bool {
	found := false
	eachAnnotation(d, func(it item) {
		if it.number == validateNumber && it.typ == protowire.BytesType {
			found = (proto.UnmarshalOptions{Merge: true, AllowPartial: true}).Unmarshal(it.bytes, rules) == nil || found
		}
	})
	return found
}

func fieldRules(fd protoreflect.FieldDescriptor) *validate.FieldRules {
	if !hasOptions(fd) {
		return nil
	}
	rules := &validate.FieldRules{}
	if !readRules(fd, rules) || rules.GetIgnore() == validate.Ignore_IGNORE_ALWAYS {
		return nil
	}
	return rules
}

func messageRules(md protoreflect.MessageDescriptor) *validate.MessageRules {
	rules := &validate.MessageRules{}
	if !readRules(md, rules) {
		return nil
	}
	return rules
}

// OneofRequired reports whether one of the alternatives must be set.
func OneofRequired(od protoreflect.OneofDescriptor) bool {
	rules := &validate.OneofRules{}
	return readRules(od, rules) && rules.GetRequired()
}

// HasRules reports whether a field, message or oneof has protovalidate's option. It does not decode the option: one that
// cannot be read counts, so that protovalidate gets to report it.
func HasRules(d protoreflect.Descriptor) bool {
	found := false
	eachAnnotation(d, func(it item) { found = found || it.number == validateNumber })
	return found
}

// maxDescription bounds one description, in characters: a model reads all of them on every turn.
const maxDescription = 1024

// comment returns the comment of a descriptor in the .proto file, without parts meant for tools: lint directives and
// AIP's internal comments, "(-- ... --)". It is empty if the descriptor has no source information. Comments of the well-known
// types are for programmers, and say nothing of the service that uses them: they do not count.
func comment(d protoreflect.Descriptor) string {
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
		text := strings.ReplaceAll(comment(v), "\n", " ")
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

// Bounds of the examples that annotations have.
const (
	maxExamples       = 2         // of one field or message of an input
	maxResultExamples = 1         // of a result
	maxExampleBytes   = 1_024     // of one example: a model reads all of them on every turn
	maxCheckedBytes   = 256 << 10 // of a schema that examples are checked against
)

// examples are up to most of those that takes accepts for the schema, in the form that it shows. A wrong one would teach a
// model to fail, so it is left out with a note.
func (d *deriver) examples(
	doc *object, texts []string, subject string, most int, takes func(*object, json.RawMessage) bool, normal func(string) (json.RawMessage, bool),
) []any {
	var out []any
	for _, text := range texts {
		value, ok := normal(text)
		switch {
		case len(out) == most:
			d.note("%s: an example is omitted: the limit is %d", subject, most)
		case len(text) > maxExampleBytes || len(value) > maxExampleBytes:
			d.note("%s: an example is omitted: the limit is %d bytes", subject, maxExampleBytes)
		case !ok || !takes(doc, value):
			d.note("%s: the example %s is omitted: the schema does not accept it", subject, quote(text))
		default:
			out = append(out, value)
		}
	}
	return out
}

// takes reports whether a schema accepts an example. One with references, which lead out of it, is not asked.
func (d *deriver) takes(doc *object, value json.RawMessage) bool {
	if bytes.Contains(appendJSON(nil, doc), []byte(`"$ref"`)) {
		return true
	}
	return d.takesWhole(doc, value)
}

// takesWhole reports whether a schema that has all that it refers to accepts an example. One that is too large to compile for
// this is not asked.
func (d *deriver) takesWhole(doc *object, value json.RawMessage) bool {
	raw := appendJSON(nil, doc)
	if len(raw) > maxCheckedBytes {
		return true
	}
	v, err := Compile(raw)
	if err != nil {
		return false
	}
	violations, err := v.Validate(value)
	return err == nil && len(violations) == 0
}

// normalExample is the example of a field as ProtoJSON writes it. Authors write strings without quotes, numbers in strings
// and one element for a list; all of it is understood.
func normalExample(fd protoreflect.FieldDescriptor, text string) (json.RawMessage, bool) {
	if fd.IsExtension() || len(text) > maxExampleBytes {
		return nil, false
	}
	quoted, _ := json.Marshal(text) //nolint:errchkjson // a string
	forms := []string{text, string(quoted)}
	if fd.IsList() {
		forms = append(forms, "["+text+"]", "["+string(quoted)+"]")
	}
	name, _ := json.Marshal(Names(fd)[0]) //nolint:errchkjson // a string
	for _, form := range forms {
		if !json.Valid([]byte(form)) {
			continue
		}
		m, ok := readExample(fd.ContainingMessage(), "{"+string(name)+":"+form+"}", Input)
		if !ok {
			continue
		}
		if !m.Has(fd) {
			return jsontext.Compact(nil, []byte(form)), true // the zero value, which ProtoJSON leaves out
		}
		var members map[string]json.RawMessage
		if raw, err := writeExample(m); err != nil || json.Unmarshal(raw, &members) != nil {
			return nil, false
		}
		for _, value := range members {
			return jsontext.Compact(nil, value), true
		}
	}
	return nil, false
}

// normalMessage is the example of a message as ProtoJSON writes it.
func normalMessage(md protoreflect.MessageDescriptor, text string, dir Direction) (json.RawMessage, bool) {
	if len(text) > maxExampleBytes || !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return nil, false
	}
	m, ok := readExample(md, text, dir)
	if !ok {
		return nil, false
	}
	raw, err := writeExample(m)
	if err != nil {
		return nil, false
	}
	return jsontext.Compact(nil, raw), true // protojson adds spaces at random
}

func readExample(md protoreflect.MessageDescriptor, text string, dir Direction) (protoreflect.Message, bool) {
	if len(Inspect([]byte(text), Bounds{})) > 0 {
		return nil, false
	}
	m := dynamicpb.NewMessage(md)
	if (protojson.UnmarshalOptions{AllowPartial: true, Resolver: (*protoregistry.Types)(nil)}).Unmarshal([]byte(text), m) != nil {
		return nil, false
	}
	withoutHidden(m, dir)
	return m, true
}

func writeExample(m protoreflect.Message) ([]byte, error) {
	return protojson.MarshalOptions{AllowPartial: true, Resolver: (*protoregistry.Types)(nil)}.Marshal(m.Interface())
}

// withoutHidden clears the fields that one direction does not have: examples of resources show them.
func withoutHidden(m protoreflect.Message, dir Direction) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case BehaviorOf(fd).Hides(dir):
			m.Clear(fd)
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { withoutHidden(v.Message(), dir); return true })
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				withoutHidden(v.List().Get(i).Message(), dir)
			}
		default:
			withoutHidden(v.Message(), dir)
		}
		return true
	})
}

// A model reads advertised schemas with every request, so that they say nothing twice: not in a keyword and in words, and
// not in two keywords. The canonical schema keeps both, because its fingerprint should not change with the wording, and so
// do inputs of ProfileStrict, where words stand for most keywords.

// isBrief reports whether the schema says each fact once.
func (d *deriver) isBrief() bool {
	return d.shown && (d.dir == Output || d.opts.Profile != ProfileStrict)
}

// inBrief is the first text where the schema says each fact once, else the second.
func (d *deriver) inBrief(short, long string) string {
	if d.isBrief() {
		return short
	}
	return long
}

// shownPattern matches the decimal form of an integer that comes in a string. Arguments are held to the number of digits.
// Who reads an answer only has to know that it is an integer.
func (d *deriver) shownPattern(t integerType) string {
	switch {
	case !d.isBrief():
		return plainPattern(t)
	case d.dir == Input:
		return strings.ReplaceAll(plainPattern(t), "[0-9]", `\d`)
	case t.least[0] == '-':
		return `-?\d+`
	default:
		return `\d+`
	}
}

// repeats reports whether a text only has the words that a name ends in: "Active." of STATE_ACTIVE.
func repeats(text, name string) bool {
	words := lettersOf(text)
	return words != "" && strings.HasSuffix(lettersOf(name), words)
}

// lettersOf are the letters and digits of a text in lower case.
func lettersOf(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
}
