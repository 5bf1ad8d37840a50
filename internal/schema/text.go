// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
)

// text writes the schema of a string. Lengths count code points, in protovalidate as in JSON Schema.
func (d *deriver) text(v value) *object {
	doc := newObject("type", typeOrNull("string", v.nullable))
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
		limits.set("maxLength", number(most))
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
	switch {
	case rules.GetEmail():
		return "email", ""
	case rules.GetHostname():
		return "hostname", ""
	case rules.GetIpv4():
		return "ipv4", ""
	case rules.GetIpv6():
		return "ipv6", ""
	case rules.GetUri():
		return "uri", ""
	case rules.GetUriRef():
		return "uri-reference", ""
	case rules.GetUuid():
		return "uuid", ""
	}
	if rules == nil {
		return "", ""
	}
	m := rules.ProtoReflect()
	set := m.WhichOneof(m.Descriptor().Oneofs().ByName("well_known"))
	if set == nil || set.Kind().String() == "bool" && !m.Get(set).Bool() {
		return "", ""
	}
	return "", fmt.Sprintf("Must be a valid %s.", strings.ReplaceAll(string(set.Name()), "_", " "))
}

// notPortable are the parts of RE2's syntax that ECMA 262, which JSON Schema names, does not have or reads otherwise.
var notPortable = regexp.MustCompile(`\(\?[a-zA-Z-]|\\[AzQECpP]|\\x\{|\[\[:|\[:|[*+?}]\+`)

// isPortable says whether a pattern means the same in RE2 and in ECMA 262. The test is on the careful side.
func isPortable(pattern string) bool {
	if notPortable.MatchString(pattern) || !utf8.ValidString(pattern) {
		return false
	}
	_, err := regexp.Compile(pattern)
	return err == nil && isUnicodePattern(pattern)
}

// bytes writes the schema of bytes: base64. The limits of rules are scaled, which is exact to within two bytes: a
// length in base64 does not tell them apart.
func (d *deriver) bytes(v value) *object {
	doc := newObject("type", typeOrNull("string", v.nullable))
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
	if least > 0 {
		limits.set("minLength", number((least*groupTo+groupOf-1)/groupOf))
	}
	if bounded {
		limits.set("maxLength", number((most+groupOf-1)/groupOf*groupTo))
	}
	d.finish(doc, limits, newObject("enum", []any{"", nil}), v.rules)
	if rules.GetMinLen() > 0 || rules.HasLen() || rules.HasMaxLen() {
		d.describe(doc, byteNote(rules.GetLen(), rules.GetMinLen(), rules.GetMaxLen(), rules.HasMaxLen())+", in base64.", otherRules(v.rules, "len", "min_len", "max_len"))
	} else {
		d.describe(doc, inBase64, otherRules(v.rules))
	}
	return doc
}
