// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// examplesOf are the examples that rules have of a value, as text.
func examplesOf(rules *validate.FieldRules) (out []string) {
	of := kindRules(rules)
	if of == nil {
		return nil
	}
	fd := of.Descriptor().Fields().ByName("example")
	if fd == nil || !fd.IsList() || fd.Message() != nil || fd.Kind() == protoreflect.BytesKind {
		return nil
	}
	for i := range of.Get(fd).List().Len() {
		out = append(out, of.Get(fd).List().Get(i).String())
	}
	return out
}

// kindRules are those of the rules of a field that are for its type, such as Int32Rules; nil for none.
func kindRules(rules *validate.FieldRules) protoreflect.Message {
	m := rules.ProtoReflect()
	od := m.Descriptor().Oneofs().ByName("type")
	if !m.IsValid() || od == nil {
		return nil
	}
	fd := m.WhichOneof(od)
	if fd == nil {
		return nil
	}
	return m.Get(fd).Message()
}

// bool invents a truth.
func (v *inventor) bool(rules *validate.FieldRules) bool {
	if r := rules.GetBool(); r.HasConst() {
		return r.GetConst()
	}
	return v.IntN(2) == 1 || rules.GetRequired()
}

// enum chooses a value that the enum has, and not the first one, which says nothing, where there is another.
func (v *inventor) enum(ed protoreflect.EnumDescriptor, r *validate.EnumRules) protoreflect.EnumNumber {
	if r.HasConst() {
		return protoreflect.EnumNumber(r.GetConst())
	}
	if in := r.GetIn(); len(in) > 0 {
		return protoreflect.EnumNumber(in[v.IntN(len(in))])
	}
	var named []protoreflect.EnumNumber
	for i := range ed.Values().Len() {
		if n := ed.Values().Get(i).Number(); n != 0 && !slices.Contains(r.GetNotIn(), int32(n)) {
			named = append(named, n)
		}
	}
	if len(named) == 0 {
		return ed.Values().Get(0).Number()
	}
	return named[v.IntN(len(named))]
}

// number invents a number of a kind.
func (v *inventor) number(kind protoreflect.Kind, rules *validate.FieldRules) protoreflect.Value {
	of := kindRules(rules)
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(v.integer(of, math.MinInt32, math.MaxInt32).Int64()))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(v.integer(of, math.MinInt64, math.MaxInt64).Int64())
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(v.integer(of, 0, math.MaxUint32).Uint64()))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(v.integer(of, 0, math.MaxUint64).Uint64())
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(v.float(of)))
	}
	return protoreflect.ValueOfFloat64(v.float(of))
}

// bounds are the bounds that rules have for a number, read by get; nil for none.
func bounds[T any](of protoreflect.Message, get func(protoreflect.Value) T, next func(T, int) T) (low, high *T) {
	if of == nil {
		return nil, nil
	}
	for _, one := range []struct {
		name protoreflect.Name
		step int
	}{{"gt", 1}, {"gte", 0}, {"lt", -1}, {"lte", 0}} {
		fd := of.Descriptor().Fields().ByName(one.name)
		if fd == nil || !of.Has(fd) {
			continue
		}
		bound := next(get(of.Get(fd)), one.step)
		if one.name[0] == 'g' {
			low = &bound
		} else {
			high = &bound
		}
	}
	return low, high
}

// listed are the values that rules name: the only one, or those of which it has to be one. not are those that are forbidden.
func listed(of protoreflect.Message) (only, not []protoreflect.Value) {
	if of == nil {
		return nil, nil
	}
	all := func(name protoreflect.Name) (out []protoreflect.Value) {
		fd := of.Descriptor().Fields().ByName(name)
		if fd == nil || !of.Has(fd) {
			return nil
		}
		if !fd.IsList() {
			return []protoreflect.Value{of.Get(fd)}
		}
		for i := range of.Get(fd).List().Len() {
			out = append(out, of.Get(fd).List().Get(i))
		}
		return out
	}
	return append(all("const"), all("in")...), all("not_in")
}

// wide is how far from one bound a number is where there is no other.
const wide = 1_000

// integer invents a whole number within the range of its type.
func (v *inventor) integer(of protoreflect.Message, least int64, most uint64) *big.Int {
	get := func(v protoreflect.Value) *big.Int {
		n, ok := new(big.Int).SetString(v.String(), 10)
		if !ok {
			return new(big.Int)
		}
		return n
	}
	only, not := listed(of)
	if len(only) > 0 {
		return get(only[v.IntN(len(only))])
	}
	low, high := bounds(of, get, func(n *big.Int, step int) *big.Int { return n.Add(n, big.NewInt(int64(step))) })
	lowest, highest := big.NewInt(least), new(big.Int).SetUint64(most)
	from, to := big.NewInt(1), big.NewInt(wide)
	switch {
	case low != nil && high != nil:
		if from, to = *low, *high; from.Cmp(to) > 0 { // outside of a range, so that both ends are allowed
			to, from = highest, *low
		}
	case low != nil:
		from, to = *low, new(big.Int).Add(*low, big.NewInt(wide))
	case high != nil:
		if to = *high; to.Cmp(from) < 0 {
			from = new(big.Int).Sub(to, big.NewInt(wide))
		} else if to.Cmp(big.NewInt(wide)) > 0 {
			to = big.NewInt(wide)
		}
	}
	if from.Cmp(lowest) < 0 {
		from = lowest
	}
	if to.Cmp(highest) > 0 {
		to = highest
	}
	out := from
	for range maxTries {
		span := new(big.Int).Sub(to, from)
		if span.Sign() >= 0 && span.IsUint64() && span.Uint64() < math.MaxUint64 {
			out = new(big.Int).Add(from, new(big.Int).SetUint64(v.Uint64N(span.Uint64()+1)))
		}
		if !slices.ContainsFunc(not, func(one protoreflect.Value) bool { return get(one).Cmp(out) == 0 }) {
			break
		}
	}
	return out
}

// float invents a number with some digits behind the point.
func (v *inventor) float(of protoreflect.Message) float64 {
	only, not := listed(of)
	if len(only) > 0 {
		return only[v.IntN(len(only))].Float()
	}
	low, high := bounds(of, protoreflect.Value.Float, func(f float64, step int) float64 {
		if step == 0 {
			return f
		}
		return f + float64(step)*max(1e-6, math.Abs(f)*1e-6)
	})
	from, to := 0.0, 100.0
	switch {
	case low != nil && high != nil:
		if from, to = *low, *high; from > to {
			to = from + wide
		}
	case low != nil:
		from, to = *low, *low+wide
	case high != nil:
		from, to = min(0, *high-wide), *high
	}
	for range maxTries {
		out := from + (to-from)*v.Float64()
		if round := math.Round(out*100) / 100; round >= from && round <= to {
			out = round
		}
		if !slices.ContainsFunc(not, func(one protoreflect.Value) bool { return one.Float() == out }) {
			return out
		}
	}
	return from
}

// text invents a string.
func (v *inventor) text(fd protoreflect.FieldDescriptor, r *validate.StringRules) string {
	if r.HasConst() {
		return r.GetConst()
	}
	if in := r.GetIn(); len(in) > 0 {
		return in[v.IntN(len(in))]
	}
	if known, ok := v.knownText(r); ok {
		return around(known, r)
	}
	if r.HasPattern() {
		return around(v.long(v.matching(r.GetPattern()), r), r)
	}
	text := v.words(fd)
	if strings.Contains(text, r.GetNotContains()) && r.HasNotContains() {
		text = strconv.Itoa(v.IntN(wide))
	}
	text = strings.TrimSuffix(text, r.GetSuffix())
	if !strings.Contains(text, r.GetContains()) {
		text += r.GetContains()
	}
	return v.sized(text, r)
}

// around gives a text the beginning and the end that it has to have.
func around(text string, r *validate.StringRules) string {
	if !strings.HasPrefix(text, r.GetPrefix()) {
		text = r.GetPrefix() + text[strings.LastIndexByte(text, '/')+1:]
	}
	if !strings.HasSuffix(text, r.GetSuffix()) {
		text += r.GetSuffix()
	}
	return text
}

// sized brings a text between its bounds, with the beginning and the end that it has to have.
func (v *inventor) sized(text string, r *validate.StringRules) string {
	least, most := int(min(r.GetMinLen(), maxText)), maxText
	if r.HasMaxLen() {
		most = int(min(r.GetMaxLen(), maxText))
	}
	if r.HasLen() {
		least, most = int(min(r.GetLen(), maxText)), int(min(r.GetLen(), maxText))
	}
	// The text is ASCII, unless what it has to contain is not: then another attempt or the check says so.
	least = max(least, int(min(max(r.GetMinBytes(), r.GetLenBytes()), maxText)))
	if r.HasMaxBytes() {
		most = min(most, int(min(r.GetMaxBytes(), maxText)))
	}
	if r.HasLenBytes() {
		most = min(most, int(min(r.GetLenBytes(), maxText)))
	}
	around := utf8.RuneCountInString(r.GetPrefix()) + utf8.RuneCountInString(r.GetSuffix())
	middle := []rune(strings.TrimPrefix(text, r.GetPrefix()))
	for len(middle)+around < least {
		middle = append(middle, rune('a'+v.IntN(26)))
	}
	if n := most - around; len(middle) > max(n, 0) {
		keep := strings.Index(string(middle), r.GetContains())
		if r.HasContains() && keep >= 0 {
			middle = []rune(r.GetContains())
		} else {
			middle = middle[:max(n, 0)]
		}
	}
	return r.GetPrefix() + string(middle) + r.GetSuffix()
}

// maxText bounds an invented text.
const maxText = 64 << 10

// long repeats a text that matches a pattern where it is too short, in the hope that it still does.
func (*inventor) long(text string, r *validate.StringRules) string {
	if text == "" {
		return text
	}
	last, _ := utf8.DecodeLastRuneInString(text)
	for n := utf8.RuneCountInString(text); n < int(min(max(r.GetMinLen(), r.GetLen()), maxText)); n++ {
		text += string(last)
	}
	return text
}

// words are what a field without rules has: its own name, and a number that tells it from others.
func (v *inventor) words(fd protoreflect.FieldDescriptor) string {
	if text, ok := v.formatted(fd); ok && !v.isSparse() {
		return text
	}
	name := string(fd.Name())
	if strings.HasSuffix(name, "_json") {
		return "{}"
	}
	return strings.ReplaceAll(name, "_", "-") + "-" + strconv.Itoa(1+v.IntN(wide))
}

// formatted is a text of the format that annotations name.
func (v *inventor) formatted(fd protoreflect.FieldDescriptor) (text string, ok bool) {
	about, _ := schema.AnnotationsOfField(fd)
	rules := &validate.StringRules{}
	switch about.Format {
	case "uuid":
		rules.SetUuid(true)
	case "email":
		rules.SetEmail(true)
	case "uri", "url":
		rules.SetUri(true)
	case "hostname":
		rules.SetHostname(true)
	case "ipv4", "ip":
		rules.SetIpv4(true)
	case "ipv6":
		rules.SetIpv6(true)
	case "date":
		return v.moment().Format(time.DateOnly), true
	case "date-time":
		return v.moment().Format(time.RFC3339), true
	default:
		return "", false
	}
	return v.knownText(rules)
}

// moment is some time of the first half of 2026.
func (v *inventor) moment() time.Time {
	return time.Date(2026, time.January, 1, 0, 0, v.IntN(180*24*3600), 0, time.UTC)
}

// knownText is a text of a well-known format.
func (v *inventor) knownText(r *validate.StringRules) (text string, ok bool) {
	n := v.IntN(wide)
	four, six := netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + n%254)}), netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", 1+n))
	set := func(is bool, value string) {
		if is && !ok {
			text, ok = value, true
		}
	}
	host := fmt.Sprintf("host-%d.example.com", n)
	set(r.GetEmail(), fmt.Sprintf("person-%d@example.com", n))
	set(r.GetHostname(), host)
	set(r.GetIp() || r.GetIpv4(), four.String())
	set(r.GetIpv6(), six.String())
	set(r.GetUri(), fmt.Sprintf("https://example.com/things/%d", n))
	set(r.GetUriRef(), fmt.Sprintf("/things/%d", n))
	set(r.GetAddress(), host)
	set(r.GetUuid(), v.uuid())
	set(r.GetTuuid(), strings.ReplaceAll(v.uuid(), "-", ""))
	set(r.GetIpWithPrefixlen() || r.GetIpv4WithPrefixlen(), four.String()+"/24")
	set(r.GetIpv6WithPrefixlen(), six.String()+"/64")
	set(r.GetIpPrefix() || r.GetIpv4Prefix(), fmt.Sprintf("10.%d.0.0/16", n%256))
	set(r.GetIpv6Prefix(), fmt.Sprintf("2001:db8:%x::/48", 1+n))
	set(r.GetHostAndPort(), fmt.Sprintf("%s:%d", host, 1024+n))
	set(r.GetUlid(), fmt.Sprintf("01J%023d", n))
	set(r.GetProtobufFqn(), fmt.Sprintf("example.v1.Thing%d", n))
	set(r.GetProtobufDotFqn(), fmt.Sprintf(".example.v1.Thing%d", n))
	set(r.GetWellKnownRegex() != validate.KnownRegex_KNOWN_REGEX_UNSPECIFIED, fmt.Sprintf("x-example-%d", n))
	return text, ok
}

// uuid is one of version 4.
func (v *inventor) uuid() string {
	id := v.some(16)
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	text := hex.EncodeToString(id)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// some are bytes.
func (v *inventor) some(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(v.IntN(256))
	}
	return out
}

// bytes invents bytes.
func (v *inventor) bytes(fd protoreflect.FieldDescriptor, r *validate.BytesRules) []byte {
	switch in := r.GetIn(); {
	case r.HasConst():
		return r.GetConst()
	case len(in) > 0:
		return in[v.IntN(len(in))]
	case r.GetIp() || r.GetIpv4():
		return []byte{192, 0, 2, byte(1 + v.IntN(254))}
	case r.GetIpv6(), r.GetUuid():
		return v.some(16)
	case r.HasPattern():
		return []byte(v.matching(r.GetPattern()))
	}
	out := slices.Concat(r.GetPrefix(), r.GetContains())
	if len(out) == 0 {
		out = []byte(v.words(fd))
	}
	least := int(min(max(r.GetMinLen(), r.GetLen()), maxText))
	for len(out)+len(r.GetSuffix()) < least {
		out = append(out, byte('a'+v.IntN(26)))
	}
	if most := max(r.GetMaxLen(), r.GetLen()); r.HasMaxLen() || r.HasLen() {
		out = out[:min(len(out), max(0, int(min(most, maxText))-len(r.GetSuffix())))]
	}
	return append(out, r.GetSuffix()...)
}

// wellKnown fills a message that ProtoJSON has its own form for; false for others.
func (v *inventor) wellKnown(m protoreflect.Message, rules *validate.FieldRules) bool {
	fields := m.Descriptor().Fields()
	set := func(name protoreflect.Name, value protoreflect.Value) { m.Set(fields.ByName(name), value) }
	seconds := func(d time.Duration) {
		set("seconds", protoreflect.ValueOfInt64(int64(d/time.Second)))
		set("nanos", protoreflect.ValueOfInt32(int32(d%time.Second)))
	}
	switch m.Descriptor().FullName() {
	case "google.protobuf.Timestamp":
		at := v.time(rules.GetTimestamp())
		set("seconds", protoreflect.ValueOfInt64(at.Unix()))
		set("nanos", protoreflect.ValueOfInt32(int32(at.Nanosecond())))
	case "google.protobuf.Duration":
		seconds(v.duration(rules.GetDuration()))
	case "google.protobuf.BoolValue", "google.protobuf.Int32Value", "google.protobuf.Int64Value", "google.protobuf.UInt32Value", "google.protobuf.UInt64Value",
		"google.protobuf.FloatValue", "google.protobuf.DoubleValue", "google.protobuf.StringValue", "google.protobuf.BytesValue":
		if rules == nil {
			rules = &validate.FieldRules{}
		}
		set("value", v.value(fields.ByName("value"), rules, 0))
	case "google.protobuf.Any":
		url := "type.googleapis.com/google.protobuf.Empty"
		if in := rules.GetAny().GetIn(); len(in) > 0 {
			url = in[v.IntN(len(in))]
		}
		set("type_url", protoreflect.ValueOfString(url))
	case "google.protobuf.Value":
		set("string_value", protoreflect.ValueOfString("value-"+strconv.Itoa(v.IntN(wide))))
	case "google.protobuf.FieldMask":
		if in := rules.GetFieldMask().GetIn(); len(in) > 0 {
			m.Mutable(fields.ByName("paths")).List().Append(protoreflect.ValueOfString(in[v.IntN(len(in))]))
		}
		if r := rules.GetFieldMask(); r.HasConst() {
			proto.Merge(m.Interface(), r.GetConst())
		}
	case "google.protobuf.Struct", "google.protobuf.ListValue", "google.protobuf.Empty":
	default:
		return false
	}
	return true
}

// time invents a time: in 2026, or within its bounds.
func (v *inventor) time(r *validate.TimestampRules) time.Time {
	at := v.moment()
	if r.HasConst() {
		return r.GetConst().AsTime()
	}
	day := time.Duration(1+v.IntN(1000)) * time.Millisecond
	switch {
	case r.HasGt():
		at = r.GetGt().AsTime().Add(day)
	case r.HasGte():
		at = r.GetGte().AsTime()
	case r.HasLt():
		at = r.GetLt().AsTime().Add(-day)
	case r.HasLte():
		at = r.GetLte().AsTime()
	}
	switch {
	case r.HasWithin(): // of now, which is another one each time
		return time.Now().UTC()
	case r.GetGtNow() && at.Before(time.Now().AddDate(1, 0, 0)):
		return time.Date(2100, time.January, 1, 0, 0, v.IntN(wide), 0, time.UTC)
	}
	return at
}

// duration invents a duration within its bounds.
func (v *inventor) duration(r *validate.DurationRules) time.Duration {
	if r.HasConst() {
		return r.GetConst().AsDuration()
	}
	if in := r.GetIn(); len(in) > 0 {
		return in[v.IntN(len(in))].AsDuration()
	}
	low, high := time.Second, 10*time.Minute
	hasLow, hasHigh := r.HasGt() || r.HasGte(), r.HasLt() || r.HasLte()
	if hasLow {
		low = r.GetGte().AsDuration()
		if r.HasGt() {
			low = r.GetGt().AsDuration() + 1
		}
		high = low + time.Minute
	}
	if hasHigh {
		high = r.GetLte().AsDuration()
		if r.HasLt() {
			high = r.GetLt().AsDuration() - 1
		}
		if !hasLow {
			low = min(low, high-time.Minute)
			low = max(low, min(0, high))
		}
	}
	if high <= low {
		return low
	}
	d := low + time.Duration(v.Int64N(int64(high-low)))
	if round := d.Truncate(time.Second); round >= low {
		return round
	}
	return d
}
