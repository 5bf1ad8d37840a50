// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/annotation"
)

// field is one field with everything that its options say about the value.
type field struct {
	fd    protoreflect.FieldDescriptor
	rules *validate.FieldRules // nil: none
	// must: the member has to be there, and null does not do.
	must bool
	// nonZero: the value has to differ from the type's zero, because only so can an implicit presence be seen.
	nonZero bool
	// given is the description in Options.Words; the advertised schema alone has it.
	given string
	// said is what annotations of other tools say, and patterns the forms of the resource name that the field holds, as its
	// message declares them. Only the advertised schema has them.
	said     annotation.Field
	patterns []string
}

// newField decides whether a field has to be there. There are five reasons: proto2's required; REQUIRED in an input;
// protovalidate's required; rules that the zero value breaks, for a field without presence, of which protovalidate
// sees the zero where the field is absent; and rules of the message that its absence breaks. protovalidate's required also means that a field without presence is not zero.
// The advertised input takes the rules of other annotations where protovalidate has none.
func (d *deriver) newField(fd protoreflect.FieldDescriptor) field {
	f := field{fd: fd, must: fd.Cardinality() == protoreflect.Required, said: d.annotatedField(fd)}
	if d.shown {
		f.given = d.opts.Words[fd.FullName()]
	}
	if d.dir == Input && BehaviorOf(fd).Required {
		f.must = true
	}
	if d.guides() && f.said.Required {
		f.require()
	}
	if d.opts.WithoutRules {
		return f
	}
	f.must = f.must || d.needs.absenceBreaks(fd)
	if f.rules = fieldRules(fd); f.rules == nil && d.guides() {
		f.rules = f.said.Rules
	}
	if f.rules == nil {
		return f
	}
	if f.rules.GetRequired() {
		f.must, f.nonZero = true, !fd.HasPresence()
	}
	if !fd.HasPresence() && !ignoresZero(f.rules) && (!zeroHolds(fd, f.rules) || d.needs.zeroBreaks(fd, f.rules)) {
		f.must = true
	}
	return f
}

func ignoresZero(rules *validate.FieldRules) bool {
	return rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE
}

// value is what is wanted of one value: of a singular field, an element, a map key or a map value.
type value struct {
	rules    *validate.FieldRules
	nullable bool // null stands for absence
	nonZero  bool
}

// isFree reports whether the type says all there is to say, as it does of most fields.
func (v value) isFree() bool { return v.rules == nil && !v.nonZero }

func elementRules(rules *validate.FieldRules) *validate.FieldRules {
	if rules.GetIgnore() == validate.Ignore_IGNORE_ALWAYS {
		return nil
	}
	return rules
}

// property writes the schema of a field. at is the reference to the place where it will stand.
func (d *deriver) property(f field, at string, depth int) *object {
	nullable := d.all && !f.must
	var doc *object
	switch {
	case f.fd.IsMap():
		doc = d.mapping(f, at, depth, nullable)
	case f.fd.IsList():
		doc = d.array(f, at, depth, nullable)
	default:
		doc = d.single(f.fd, value{rules: f.rules, nullable: nullable, nonZero: f.nonZero}, at, depth)
	}
	own, _ := doc.get("description").(string)
	d.describe(doc, f.words(), d.deprecation(f.fd), own, celText(f.rules.GetCel(), f.rules.GetCelExpression()), d.guide(doc, f))
	if isDeprecated(f.fd) {
		doc.set("deprecated", true)
	}
	return doc
}

func typeOrNull(name string, nullable bool) any {
	if nullable {
		return []string{name, "null"}
	}
	return name
}

func (d *deriver) array(f field, at string, depth int, nullable bool) *object {
	d.count++
	rules := f.rules.GetRepeated()
	doc := newObject("type", typeOrNull("array", nullable))
	items := d.single(f.fd, value{rules: elementRules(rules.GetItems())}, d.pointerTo(at, "items"), depth)
	doc.set("items", items)
	d.finishMany(doc, listLimits(f), newObject("maxItems", 0), "minItems", f.rules)
	return doc
}

// finishMany is finish for a list or a map. The advertised schema of an output has no least number: elements that exceed a
// budget are left out (docs/results.md).
func (d *deriver) finishMany(doc, limits, zero *object, least string, rules *validate.FieldRules) {
	if d.dir == Input || !d.shown {
		d.finish(doc, limits, zero, rules)
		return
	}
	limits.remove(least)
	for _, m := range limits.members {
		doc.set(m.name, m.value)
	}
}

// listLimits is what rules say of a list as a whole.
func listLimits(f field) *object {
	rules, limits := f.rules.GetRepeated(), &object{}
	least := rules.GetMinItems()
	if f.nonZero {
		least = max(least, 1)
	}
	setLimit(limits, "minItems", least)
	if rules.HasMaxItems() {
		limits.set("maxItems", number(rules.GetMaxItems()))
	}
	if rules.GetUnique() {
		limits.set("uniqueItems", true)
	}
	return limits
}

func (d *deriver) mapping(f field, at string, depth int, nullable bool) *object {
	d.count++
	rules := f.rules.GetMap()
	doc := newObject("type", typeOrNull("object", nullable))
	if names := d.keys(f.fd.MapKey(), elementRules(rules.GetKeys())); names.size() > 0 {
		doc.set("propertyNames", names)
	}
	values := d.single(f.fd.MapValue(), value{rules: elementRules(rules.GetValues())}, d.pointerTo(at, "additionalProperties"), depth)
	doc.set("additionalProperties", values)
	d.finishMany(doc, mapLimits(f), newObject("maxProperties", 0), "minProperties", f.rules)
	return doc
}

// mapLimits is what rules say of a map as a whole.
func mapLimits(f field) *object {
	rules, limits := f.rules.GetMap(), &object{}
	least := rules.GetMinPairs()
	if f.nonZero {
		least = max(least, 1)
	}
	setLimit(limits, "minProperties", least)
	if rules.HasMaxPairs() {
		limits.set("maxProperties", number(rules.GetMaxPairs()))
	}
	return limits
}

func setLimit(o *object, keyword string, least uint64) {
	if least > 0 {
		o.set(keyword, number(least))
	}
}

// finish joins what the type says (doc) with what the rules say (limits). Where the rules leave the zero value alone
// (IGNORE_IF_ZERO_VALUE), the schema has to admit it beside them; the advertised schema of an input need not show that form,
// since a caller can leave the field out. A keyword of the rules replaces the one of the type: it is never wider.
func (d *deriver) finish(doc, limits, zero *object, rules *validate.FieldRules) {
	if limits.size() == 0 {
		return
	}
	if rules != nil && ignoresZero(rules) && (d.all || d.dir == Output) {
		doc.set("anyOf", []any{zero, limits})
		return
	}
	for _, m := range limits.members {
		doc.set(m.name, m.value)
	}
}

// single writes the schema of one value.
func (d *deriver) single(fd protoreflect.FieldDescriptor, v value, at string, depth int) *object {
	d.count++
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		md := fd.Message()
		if isWellKnown(md) {
			return d.shareValue(md.FullName(), v, d.wellKnown(md, fd, v.rules, v.nullable))
		}
		return d.place(md, at, depth, v.nullable)
	case protoreflect.EnumKind:
		return d.shareValue(fd.Enum().FullName(), v, d.enum(fd.Enum(), v))
	default:
		return d.scalar(fd.Kind(), v)
	}
}

func (d *deriver) scalar(kind protoreflect.Kind, v value) *object {
	switch kind {
	case protoreflect.BoolKind:
		return d.boolean(v)
	case protoreflect.StringKind:
		return d.text(v)
	case protoreflect.BytesKind:
		return d.bytes(v)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return d.float(kind, v)
	default:
		return d.integer(kind, v)
	}
}

func (d *deriver) boolean(v value) *object {
	doc := newObject("type", typeOrNull("boolean", v.nullable))
	if v.isFree() {
		return doc
	}
	rules := v.rules.GetBool()
	limits := &object{}
	switch {
	case rules.HasConst():
		limits.set("enum", []any{rules.GetConst()})
	case v.nonZero:
		limits.set("enum", []any{true})
	}
	if limits.size() > 0 && v.nullable {
		limits.set("enum", append(limits.get("enum").([]any), nil))
	}
	d.finish(doc, limits, newObject("enum", []any{false, nil}), v.rules)
	return doc
}
