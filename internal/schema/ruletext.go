// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
)

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

// messageText is what the rules of a message say to a reader.
type messageText struct{ lines []string }

// String is empty for none.
func (t *messageText) String() string {
	if t == nil {
		return ""
	}
	return strings.Join(t.lines, "\n")
}

func (d *deriver) messageRuleText(md protoreflect.MessageDescriptor) *messageText {
	rules := messageRules(md)
	if rules == nil {
		return nil
	}
	t := &messageText{}
	if text := celText(rules.GetCel(), rules.GetCelExpression()); text != "" {
		t.lines = append(t.lines, text)
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
		t.lines = append(t.lines, fmt.Sprintf(word, strings.Join(names, ", ")))
	}
	return t
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
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return v.String()
	}
	return strings.Trim(compact.String(), `"`)
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
		r := enumRules{allowed: rules.GetEnum().GetIn(), refused: rules.GetEnum().GetNotIn()}
		if rules.GetEnum().HasConst() {
			r.allowed = []int32{rules.GetEnum().GetConst()}
		}
		if len(r.allowed) == 0 {
			r.allowed = nil
		}
		return r.admits(0)
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
	if p := rules.GetPattern(); p != "" {
		if re, err := regexp.Compile(p); err == nil && !re.MatchString("") {
			return false
		}
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
	if p := rules.GetPattern(); p != "" {
		if re, err := regexp.Compile(p); err == nil && !re.MatchString("") {
			return false
		}
	}
	return holds
}
