// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"regexp"
	"slices"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// FieldRules are the bounds of one value: a field, an element of a list, or a key or value
// of a map. Zero means that there is no such rule.
type FieldRules struct {
	// Required is set if the zero value breaks the rules.
	Required bool
	// Min is the smallest allowed integer; nil if there is none.
	Min *int64
	// MinBytes and MaxBytes bound the length of a string or bytes.
	MinBytes, MaxBytes int
	// MaxSeconds is the maximum duration in seconds.
	MaxSeconds int64
	// In lists the allowed values of a string.
	In []string
	// URI is set for strings that must be absolute URIs.
	URI bool
	// Pattern is the pattern that a string must match.
	Pattern *regexp.Regexp
	// Low and High bound a number that has both bounds (Ranged).
	Low, High float64
	Ranged    bool
	// MaxItems is the maximum number of elements of a list or pairs of a map.
	MaxItems int
	// Items are the rules of an element of a list or a value of a map. Keys are those of a
	// map's key.
	Items, Keys *FieldRules
}

// FieldRulesOf returns the rules of a field of a message; empty Rules if there is no such field.
func FieldRulesOf(m proto.Message, field protoreflect.Name) FieldRules {
	if fd := m.ProtoReflect().Descriptor().Fields().ByName(field); fd != nil {
		return ReadFieldRules(fd)
	}
	return FieldRules{}
}

// ReadFieldRules returns the rules of a field.
func ReadFieldRules(fd protoreflect.FieldDescriptor) FieldRules {
	r, _ := proto.GetExtension(fd.Options(), validate.E_Field).(*validate.FieldRules)
	return read(r)
}

// read relies on getters of nil that say nothing.
func read(r *validate.FieldRules) FieldRules {
	var out FieldRules
	switch {
	case r.HasString():
		out = ofString(r.GetString())
	case r.HasBytes():
		out = FieldRules{MinBytes: int(r.GetBytes().GetMinLen()), MaxBytes: int(r.GetBytes().GetMaxLen())}
		out.Required = out.MinBytes > 0
	case r.HasDuration():
		out.MaxSeconds = r.GetDuration().GetLte().GetSeconds()
	case r.HasEnum():
		out.Required = slices.Contains(r.GetEnum().GetNotIn(), 0)
	case r.HasInt64():
		out.Min = smallest(r.GetInt64())
		out.Required = out.Min != nil && *out.Min > 0
	case r.HasSint32():
		out.Required = slices.Contains(r.GetSint32().GetNotIn(), 0)
	case r.HasDouble():
		d := r.GetDouble()
		out = FieldRules{Low: d.GetGte(), High: d.GetLte(), Ranged: d.HasGte() && d.HasLte()}
	case r.HasRepeated():
		out = FieldRules{MaxItems: int(r.GetRepeated().GetMaxItems()), Required: r.GetRepeated().GetMinItems() > 0}
		out.Items = new(read(r.GetRepeated().GetItems()))
	case r.HasMap():
		out.MaxItems = int(r.GetMap().GetMaxPairs())
		out.Keys, out.Items = new(read(r.GetMap().GetKeys())), new(read(r.GetMap().GetValues()))
	}
	out.Required = r.GetRequired() || out.Required && r.GetIgnore() != validate.Ignore_IGNORE_IF_ZERO_VALUE
	return out
}

// smallest returns the smallest integer that the rules admit.
func smallest(r *validate.Int64Rules) *int64 {
	switch {
	case r.HasGte():
		return new(r.GetGte())
	case r.HasGt():
		return new(r.GetGt() + 1)
	}
	return nil
}

func ofString(s *validate.StringRules) FieldRules {
	out := FieldRules{MinBytes: int(max(s.GetMinBytes(), s.GetMinLen())), MaxBytes: int(s.GetMaxBytes()), In: s.GetIn(), URI: s.GetUri()}
	if s.HasPattern() {
		out.Pattern = regexp.MustCompile(s.GetPattern()) // protovalidate compiles it, too
	}
	out.Required = out.MinBytes > 0 || out.URI || out.Pattern != nil && !out.Pattern.MatchString("")
	return out
}
