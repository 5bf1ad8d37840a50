// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// text writes the schema of a string. Lengths count code points, in protovalidate as in JSON Schema.
func (d *deriver) text(v value) *object {
	doc := newObject("type", typeOrNull(v.nullable, "string"))
	rules := v.rules.GetString()
	if rules == nil && !v.nonZero {
		return doc
	}
	limits, notes := &object{}, []string(nil)
	least, most, bounded := textLengths(rules)
	if v.nonZero {
		least = max(least, 1)
	}
	setLimit(limits, "minLength", least)
	if bounded {
		setMost(limits, "maxLength", most)
	}
	for _, p := range textPatterns(rules) {
		limits.merge(newObject("pattern", p))
	}
	if p := rules.GetPattern(); p != "" {
		if shown, ok := ecmaPattern(p); ok {
			limits.merge(newObject("pattern", shown))
		} else {
			notes = append(notes, fmt.Sprintf("Must match the RE2 pattern %s.", p))
		}
	}
	if s := rules.GetNotContains(); s != "" {
		limits.set("not", newObject("type", "string", "pattern", regexp.QuoteMeta(s)))
	}
	if values := allowedStrings(rules); values != nil {
		limits.set("enum", stringForms(values, v.nullable))
	}
	if refused := rules.GetNotIn(); len(refused) > 0 {
		limits.merge(newObject("not", newObject("enum", stringForms(refused, false))))
	}
	format, note := textFormat(rules)
	if format != "" {
		doc.set("format", format)
	}
	if rules.GetMinBytes() > 0 || rules.HasMaxBytes() || rules.HasLenBytes() {
		notes = append(notes, byteNote(rules.GetLenBytes(), rules.GetMinBytes(), rules.GetMaxBytes(), rules.HasMaxBytes())+" of UTF-8.")
	}
	d.finish(doc, limits, newObject("enum", []any{"", nil}), v.rules)
	d.describe(doc, append(notes, note)...)
	return doc
}

// textLengths joins the rules about code points with what those about bytes imply: a code point takes one to four.
func textLengths(rules *validate.StringRules) (least, most uint64, bounded bool) {
	least = max(rules.GetMinLen(), (rules.GetMinBytes()+3)/4)
	upper := func(n uint64) {
		if !bounded || n < most {
			most, bounded = n, true
		}
	}
	if rules.HasMaxLen() {
		upper(rules.GetMaxLen())
	}
	if rules.HasMaxBytes() {
		upper(rules.GetMaxBytes())
	}
	if rules.HasLen() {
		least = max(least, rules.GetLen())
		upper(rules.GetLen())
	}
	if rules.HasLenBytes() {
		least = max(least, (rules.GetLenBytes()+3)/4)
		upper(rules.GetLenBytes())
	}
	return least, most, bounded
}

func byteNote(exact, least, most uint64, bounded bool) string {
	switch {
	case exact > 0:
		return fmt.Sprintf("Exactly %d bytes", exact)
	case least > 0 && bounded:
		return fmt.Sprintf("From %d to %d bytes", least, most)
	case bounded:
		return fmt.Sprintf("At most %d bytes", most)
	default:
		return fmt.Sprintf("At least %d bytes", least)
	}
}

func textPatterns(rules *validate.StringRules) []string {
	var out []string
	if s := rules.GetPrefix(); s != "" {
		out = append(out, "^"+regexp.QuoteMeta(s))
	}
	if s := rules.GetSuffix(); s != "" {
		out = append(out, regexp.QuoteMeta(s)+"$")
	}
	if s := rules.GetContains(); s != "" {
		out = append(out, regexp.QuoteMeta(s))
	}
	return out
}

func allowedStrings(rules *validate.StringRules) []string {
	if rules.HasConst() {
		return []string{rules.GetConst()}
	}
	if len(rules.GetIn()) > 0 {
		return rules.GetIn()
	}
	return nil
}

func stringForms(values []string, null bool) []any {
	out := []any{}
	for _, s := range values {
		out = append(out, s)
	}
	if null {
		out = append(out, nil)
	}
	return out
}

// textFormat names the JSON Schema format that comes closest to a rule about well-known text. A format is a hint:
// protovalidate decides. What has no format becomes a sentence.
func textFormat(rules *validate.StringRules) (format, note string) {
	if rules == nil {
		return "", ""
	}
	m := rules.ProtoReflect()
	set := m.WhichOneof(m.Descriptor().Oneofs().ByName("well_known"))
	if set == nil || set.Kind() == protoreflect.BoolKind && !m.Get(set).Bool() {
		return "", ""
	}
	switch name := string(set.Name()); name {
	case "email", "hostname", "ipv4", "ipv6", "uri", "uuid":
		return name, ""
	case "uri_ref":
		return "uri-reference", ""
	default:
		return "", fmt.Sprintf("Must be a valid %s.", strings.ReplaceAll(name, "_", " "))
	}
}

// bytes writes the schema of bytes: base64. The limits of rules are scaled, which is exact to within two bytes: a
// length in base64 does not tell them apart.
func (d *deriver) bytes(v value) *object {
	doc := newObject("type", typeOrNull(v.nullable, "string"))
	if !d.isBrief() { // else the words say it, which models do not overlook
		doc.set("contentEncoding", "base64")
	}
	if d.dir == Input {
		doc.set("format", formatByte)
	}
	inBase64 := ""
	if d.shown { // words in the canonical schema would only change its fingerprint
		inBase64 = "In base64."
	}
	if v.isFree() {
		d.describe(doc, inBase64)
		return doc
	}
	rules := v.rules.GetBytes()
	limits := &object{}
	least, most, bounded := max(rules.GetMinLen(), rules.GetLen()), rules.GetMaxLen(), rules.HasMaxLen()
	if rules.HasLen() {
		most, bounded = rules.GetLen(), true
	}
	if v.nonZero {
		least = max(least, 1)
	}
	const groupOf, groupTo = 3, 4 // three bytes become four characters
	setLimit(limits, "minLength", (min(least, maxSafe)*groupTo+groupOf-1)/groupOf)
	if bounded && most <= maxSafe {
		setMost(limits, "maxLength", (most+groupOf-1)/groupOf*groupTo)
	}
	d.finish(doc, limits, newObject("enum", []any{"", nil}), v.rules)
	if rules.GetMinLen() > 0 || rules.HasLen() || rules.HasMaxLen() {
		d.describe(doc, byteNote(rules.GetLen(), rules.GetMinLen(), rules.GetMaxLen(), rules.HasMaxLen())+", in base64.", otherRules(v.rules, "len", "min_len", "max_len"))
	} else {
		d.describe(doc, inBase64, otherRules(v.rules))
	}
	return doc
}

// The formats that a Validator asserts. They say exactly what ProtoJSON says, for numbers and for their string forms;
// int32 to byte are the names of the OpenAPI format registry, google-* those of Google's discovery documents.
// All other formats are annotations, as JSON Schema 2020-12 has it.
const (
	formatInt32     = "int32"
	formatInt64     = "int64"
	formatUint32    = "uint32"
	formatUint64    = "uint64"
	formatFloat     = "float"
	formatDouble    = "double"
	formatByte      = "byte"
	formatDateTime  = "date-time"
	formatDuration  = "google-duration"
	formatFieldMask = "google-fieldmask"
)

var errFormat = errors.New("not of this format")

// isWidelyKnown reports whether ajv-formats 3 knows a format. Validators in JavaScript refuse a whole schema for one
// format that they do not know, so an advertised schema shows no others: ranges that only a format could say are left
// to the description.
func isWidelyKnown(format string) bool {
	switch format {
	case formatUint32, formatUint64, formatDuration, formatFieldMask:
		return false
	}
	return true
}

// mayShow reports whether the schema may name a format. ProfileStrict turns formats into words and shows none.
func (d *deriver) mayShow(format string) bool {
	return !d.shown || isWidelyKnown(format) || d.opts.Profile == ProfileStrict
}

// registerFormats replaces every format that the library asserts: ours by ProtoJSON's reading, the rest by nothing.
func registerFormats(c *jsonschema.Compiler) {
	for _, name := range []string{
		"json-pointer", "relative-json-pointer", "uuid", "duration", "period", "ipv4", "ipv6", "hostname", "email", "date",
		"time", "uri", "iri", "uri-reference", "iri-reference", "uri-template", "semver",
	} {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	ours := map[string]func(any) bool{
		formatInt32:     isInteger(32, true, &wrapperspb.Int32Value{}),
		formatInt64:     isInteger(64, true, &wrapperspb.Int64Value{}),
		formatUint32:    isInteger(32, false, &wrapperspb.UInt32Value{}),
		formatUint64:    isInteger(64, false, &wrapperspb.UInt64Value{}),
		formatFloat:     func(v any) bool { return isFloat(v, 32) },
		formatDouble:    func(v any) bool { return isFloat(v, 64) },
		formatByte:      onStrings(isBase64),
		formatDateTime:  onStrings(isTimestamp),
		formatDuration:  onStrings(func(s string) bool { return reads(jsontext.AppendString(nil, s), &durationpb.Duration{}) }),
		formatFieldMask: onStrings(func(s string) bool { return reads(jsontext.AppendString(nil, s), &fieldmaskpb.FieldMask{}) }),
	}
	for name, holds := range ours {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(v any) error {
			if holds(v) {
				return nil
			}
			return errFormat
		}})
	}
}

// onStrings lets a format speak about strings only, as JSON Schema asks.
func onStrings(f func(string) bool) func(any) bool {
	return func(v any) bool {
		s, ok := v.(string)
		return !ok || f(s)
	}
}

// reads reports whether ProtoJSON reads a JSON value as the type of a message.
func reads(raw []byte, as proto.Message) bool {
	return protojson.Unmarshal(raw, as.ProtoReflect().New().Interface()) == nil
}

// isInteger holds for numbers of the type, for the same written as a JSON number in a string, and for the forms that
// a map key may have (a plus sign, leading zeros); the pattern beside the format tells these apart.
func isInteger(bits int, signed bool, wrapper proto.Message) func(any) bool {
	return func(v any) bool {
		s, ok := numberText(v)
		var err error
		if signed {
			_, err = strconv.ParseInt(s, 10, bits)
		} else {
			_, err = strconv.ParseUint(s, 10, bits)
		}
		return !ok || err == nil || isNumber(s) && reads([]byte(s), wrapper)
	}
}

// numberText is a number, or a string that may be one; ok is false for other values.
func numberText(v any) (s string, ok bool) {
	switch v := v.(type) {
	case json.Number:
		return v.String(), true
	case string:
		return v, true
	}
	return "", false
}

// isNumber reports whether a text is a JSON number, with nothing around it.
func isNumber(s string) bool {
	return s != "" && strings.IndexByte("-0123456789", s[0]) >= 0 && strings.TrimSpace(s) == s && json.Valid([]byte(s))
}

func isFloat(v any, bits int) bool {
	s, ok := numberText(v)
	if !ok || s == "NaN" || s == "Infinity" || s == "-Infinity" {
		return true
	}
	_, err := strconv.ParseFloat(s, bits)
	_, isText := v.(string)
	return err == nil && (!isText || isNumber(s))
}

// isBase64 takes both alphabets, with or without padding, as ProtoJSON does.
func isBase64(s string) bool {
	encoding := base64.StdEncoding
	if strings.ContainsAny(s, "-_") {
		encoding = base64.URLEncoding
	}
	if len(s)%4 != 0 {
		encoding = encoding.WithPadding(base64.NoPadding)
	}
	_, err := encoding.DecodeString(s)
	return err == nil
}

// The range of google.protobuf.Timestamp: the years 1 to 9999.
const (
	minTimestampSeconds = -62135596800
	maxTimestampSeconds = 253402300799
	maxNanosDigits      = 9
)

// isTimestamp reads RFC 3339 as ProtoJSON's Go implementation does.
func isTimestamp(s string) bool {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Unix() < minTimestampSeconds || t.Unix() > maxTimestampSeconds {
		return false
	}
	dot, zone := strings.LastIndexByte(s, '.'), strings.LastIndexAny(s, "Z-+")
	return dot < 0 || zone < dot || zone-dot <= maxNanosDigits+1
}

// celText is what CEL rules say to a reader: their message, or else the expression.
func celText(rules []*validate.Rule, expressions []string) string {
	var lines []string
	for _, r := range rules {
		text := r.GetMessage()
		if text == "" {
			text = r.GetExpression()
		}
		lines = append(lines, "Rule: "+text)
	}
	for _, e := range expressions {
		lines = append(lines, "Rule: "+e)
	}
	return strings.Join(lines, "\n")
}

// messageRuleText is what the rules of a message say to a reader.
func (d *deriver) messageRuleText(md protoreflect.MessageDescriptor) string {
	if d.opts.WithoutRules {
		return ""
	}
	rules := messageRules(md)
	var lines []string
	if text := celText(rules.GetCel(), rules.GetCelExpression()); text != "" {
		lines = append(lines, text)
	}
	for _, group := range rules.GetOneof() {
		word := "At most one of %s may be set."
		if group.GetRequired() {
			word = "Exactly one of %s must be set."
		}
		var names []string
		for _, name := range group.GetFields() {
			if fd := md.Fields().ByName(protoreflect.Name(name)); fd != nil {
				name = fd.JSONName()
			}
			names = append(names, name)
		}
		lines = append(lines, fmt.Sprintf(word, strings.Join(names, ", ")))
	}
	return strings.Join(lines, "\n")
}

// otherRules words the rules of a type for which the schema has no keyword, all of them but those named. A model that reads
// them can keep to them, although only protovalidate enforces them.
func otherRules(rules *validate.FieldRules, but ...string) string {
	if rules == nil {
		return ""
	}
	m := rules.ProtoReflect()
	fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("type"))
	if fd == nil {
		return ""
	}
	m = m.Get(fd).Message()
	var lines []string
	for i := range m.Descriptor().Fields().Len() {
		rule := m.Descriptor().Fields().Get(i)
		if !m.Has(rule) || rule.Name() == "example" || slices.Contains(but, string(rule.Name())) {
			continue
		}
		lines = append(lines, fmt.Sprintf("Rule: %s.%s is %s.", fd.Name(), rule.Name(), ruleValue(rule, m.Get(rule))))
	}
	return strings.Join(lines, "\n")
}

// ruleValue writes the value of a rule as ProtoJSON would.
func ruleValue(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if fd.IsList() {
		var parts []string
		for i := range v.List().Len() {
			parts = append(parts, ruleScalar(fd, v.List().Get(i)))
		}
		return strings.Join(parts, ", ")
	}
	return ruleScalar(fd, v)
}

func ruleScalar(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if fd.Message() == nil {
		return v.String()
	}
	raw, err := protojson.Marshal(v.Message().Interface())
	if err != nil {
		return v.String()
	}
	return strings.Trim(string(jsontext.Compact(nil, raw)), `"`) // protojson adds spaces at random
}

// zeroHolds says whether the zero value of a field without presence satisfies its rules. Where it does not, leaving the
// field out is as wrong as a bad value. CEL rules are not asked.
func zeroHolds(fd protoreflect.FieldDescriptor, rules *validate.FieldRules) bool {
	switch {
	case fd.IsMap():
		return rules.GetMap().GetMinPairs() == 0
	case fd.IsList():
		return rules.GetRepeated().GetMinItems() == 0
	}
	switch kind := fd.Kind(); kind {
	case protoreflect.BoolKind:
		return !rules.GetBool().GetConst()
	case protoreflect.StringKind:
		return emptyTextHolds(rules.GetString())
	case protoreflect.BytesKind:
		return emptyBytesHold(rules.GetBytes())
	case protoreflect.EnumKind:
		return enumRulesOf(value{rules: rules}).admits(0)
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return true
	default:
		return numberRulesOf(kind, rules).holds(new(big.Rat))
	}
}

func emptyTextHolds(rules *validate.StringRules) bool {
	if rules == nil {
		return true
	}
	least, _, _ := textLengths(rules)
	if least > 0 || len(textPatterns(rules)) > 0 || slices.Contains(rules.GetNotIn(), "") {
		return false
	}
	if values := allowedStrings(rules); values != nil && !slices.Contains(values, "") {
		return false
	}
	if !takesEmpty(rules.GetPattern()) {
		return false
	}
	format, note := textFormat(rules)
	return format == "" && note == "" || format == "uri-reference"
}

func emptyBytesHold(rules *validate.BytesRules) bool {
	switch {
	case rules == nil:
		return true
	case rules.GetMinLen() > 0 || rules.GetLen() > 0 || len(rules.GetConst()) > 0:
		return false
	case len(rules.GetPrefix()) > 0 || len(rules.GetSuffix()) > 0 || len(rules.GetContains()) > 0:
		return false
	case rules.GetIp() || rules.GetIpv4() || rules.GetIpv6() || rules.GetUuid():
		return false
	}
	holds := len(rules.GetIn()) == 0
	for _, b := range rules.GetIn() {
		holds = holds || len(b) == 0
	}
	for _, b := range rules.GetNotIn() {
		holds = holds && len(b) > 0
	}
	return holds && takesEmpty(rules.GetPattern())
}

// takesEmpty reports whether a pattern matches the empty text; one that is no pattern refuses nothing.
func takesEmpty(pattern string) bool {
	re, err := regexp.Compile(pattern)
	return err != nil || re.MatchString("")
}

func (r *reporter) found(location []string) string {
	switch v := lookUp(r.doc, location).(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return clip(v.String())
	case string:
		return "the string " + quote(v)
	case []any:
		return fmt.Sprintf("an array of length %d", len(v))
	case map[string]any:
		return fmt.Sprintf("an object with %d members", len(v))
	default:
		return "another value"
	}
}

func clip(s string) string {
	if len(s) > maxQuoted {
		return s[:maxQuoted] + "..."
	}
	return s
}

func (r *reporter) wanted(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return "wanted " + typeList(slices.Clone(k.Want))
	case *kind.Enum:
		return "wanted " + r.choice(k.Want, e.InstanceLocation)
	case *kind.Const:
		return "wanted " + literal(k.Want)
	case *kind.Format:
		return "wanted " + formatText(k.Want)
	case *kind.Pattern:
		return "wanted text that matches " + clipPattern(k.Want)
	case *kind.Minimum:
		return "wanted at least " + decimal(k.Want)
	case *kind.Maximum:
		return "wanted at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "wanted more than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "wanted less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "wanted a multiple of " + decimal(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("wanted at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("wanted at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("wanted at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("wanted at most %d items", k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("wanted at least %d entries", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("wanted at most %d entries", k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("wanted every item once (%d and %d are equal)", k.Duplicates[0], k.Duplicates[1])
	case *kind.Not:
		return "wanted a value that is not refused"
	case *kind.FalseSchema:
		return "wanted no value here"
	default:
		return "wanted a value for which " + keywordOf(k) + " holds"
	}
}

// choice lists the values of an enum, or names the one that was most likely meant.
func (r *reporter) choice(values []any, location []string) string {
	var names []string
	for _, v := range values {
		if s, ok := v.(string); ok {
			names = append(names, s)
		}
	}
	if len(names) == 0 || len(values)-len(names) > 1 {
		var all []string
		for _, v := range values {
			all = append(all, literal(v))
		}
		return "one of " + clip(strings.Join(all, ", "))
	}
	text := "one of " + list(names)
	if slices.Contains(values, nil) {
		text = "null or " + text
	}
	if s, ok := lookUp(r.doc, location).(string); ok {
		if near := NearestValue(s, names); near != "" {
			text += " (did you mean " + quote(near) + "?)"
		}
	}
	return text
}

func literal(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "another value"
	}
	return clip(string(raw))
}

// maxPatternShown keeps generated patterns, which explain nothing, out of messages.
const maxPatternShown = 100

func clipPattern(p string) string {
	if len(p) > maxPatternShown {
		return "the pattern of the schema"
	}
	return p
}

func decimal(x *big.Rat) string {
	if x.IsInt() {
		return clip(x.Num().String())
	}
	f, _ := x.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func formatText(name string) string {
	switch name {
	case formatInt32, formatInt64, formatUint32, formatUint64:
		return "an integer of type " + name
	case formatFloat, formatDouble:
		return "a number of type " + name
	case formatByte:
		return "base64"
	case formatDateTime:
		return "an RFC 3339 timestamp such as 2006-01-02T15:04:05Z"
	case formatDuration:
		return "a duration in seconds such as 3.5s"
	case formatFieldMask:
		return "comma-separated lowerCamelCase paths"
	default:
		return "the format " + name
	}
}
