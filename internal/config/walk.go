// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"iter"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// walker fills the draft's message from the nodes of a YAML file, led by the
// message's descriptor. It goes on after every fault.
type walker struct {
	*draft
	file string
}

func (w *walker) origin(n *yaml.Node) origin {
	return origin{source: w.file, line: max(n.Line, 1), column: max(n.Column, 1)}
}

func (w *walker) fault(n *yaml.Node, path, format string, args ...any) {
	w.draft.fault(w.origin(n), path, format, args...)
}

// isNode checks the kind of a node, and what no node may be.
func (w *walker) isNode(n *yaml.Node, kind yaml.Kind, path string, depth int) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		w.fault(n, path, "aliases (%s) are not supported; write the value out", w.shown("*"+n.Value))
	case depth > maxFileDepth:
		w.fault(n, path, "is nested deeper than %d levels", maxFileDepth)
	case n.Kind != kind:
		w.fault(n, path, "must be %s, is %s", kindName(kind), w.nodeName(n))
	default:
		return true
	}
	return false
}

func (w *walker) message(n *yaml.Node, m protoreflect.Message, path string, depth int) {
	// "limits:" with everything below it commented out is null, and says nothing.
	if isNull(n) || !w.isNode(n, yaml.MappingNode, path, depth) {
		return
	}
	fields := m.Descriptor().Fields()
	members := make(map[protoreflect.FullName]string) // oneof to the member that was given
	for key, value := range w.pairs(n, path) {
		at := join(path, key.Value)
		fd := fields.ByName(protoreflect.Name(key.Value))
		if fd == nil {
			w.unknown(key, fields, path)
			continue
		}
		if group := fd.ContainingOneof(); group != nil && !group.IsSynthetic() {
			if other, taken := members[group.FullName()]; taken {
				w.fault(key, at, "cannot be together with %s", other)
				continue
			}
			members[group.FullName()] = key.Value
		}
		w.field(key, value, m, fd, at, depth+1)
	}
}

// pairs yields the entries of a mapping whose keys are plain and not repeated.
func (w *walker) pairs(n *yaml.Node, path string) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		seen := make(map[string]int)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			switch {
			case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
				w.fault(key, path, "keys must be plain names")
				continue
			case seen[key.Value] > 0:
				w.fault(key, join(path, w.shown(key.Value)), "is here already in line %d", seen[key.Value])
				continue
			}
			seen[key.Value] = max(key.Line, 1)
			if !yield(key, value) {
				return
			}
		}
	}
}

func (w *walker) unknown(key *yaml.Node, fields protoreflect.FieldDescriptors, path string) {
	at, meant := join(path, w.shownKey(key.Value)), ""
	if instead := removed()[join(path, key.Value)]; instead != "" {
		w.fault(key, at, "%s", instead)
		return
	}
	if len(w.faults) < maxFaults { // further advice is not read, and it takes time
		meant = nearest(key.Value, fieldNames(fields))
	}
	if meant == "" {
		w.fault(key, at, "unknown key")
		return
	}
	w.fault(key, at, "unknown key; did you mean %s?", meant)
	w.misspelt[join(path, meant)] = true
}

// shown is what of a file's text may stand in a message.
func (w *walker) shown(text string) string {
	if w.secret {
		return "?"
	}
	return text
}

// shownKey is what of a key may stand in a message. In a file with credentials
// only a short lower-case word is shown: it is a misspelt key, not a token in
// the wrong place.
func (w *walker) shownKey(text string) string {
	if keyLike().MatchString(text) {
		return text
	}
	return w.shown(text)
}

// keyLike has no digits and no upper case, which tokens and digests have.
var keyLike = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z_]{1,20}$`) })

func fieldNames(fields protoreflect.FieldDescriptors) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range fields.Len() {
			if !yield(string(fields.Get(i).Name())) {
				return
			}
		}
	}
}

func (w *walker) field(key, value *yaml.Node, m protoreflect.Message, fd protoreflect.FieldDescriptor, path string, depth int) {
	if isNull(value) {
		return
	}
	w.origins[path] = w.origin(key)
	switch {
	case fd.IsMap():
		w.mapping(value, m, fd, path, depth)
	case fd.IsList():
		w.list(value, m, fd, path, depth)
	case isMessage(fd):
		w.message(value, m.Mutable(fd).Message(), path, depth)
	default:
		if v, ok := w.value(value, fd, path, depth); ok {
			m.Set(fd, v)
		}
	}
}

func (w *walker) list(n *yaml.Node, m protoreflect.Message, fd protoreflect.FieldDescriptor, path string, depth int) {
	if !w.isNode(n, yaml.SequenceNode, path, depth) {
		return
	}
	m.Clear(fd)
	list := m.Mutable(fd).List()
	for i, item := range n.Content {
		at := path + "[" + strconv.Itoa(i) + "]"
		w.origins[at] = w.origin(item)
		if isMessage(fd) {
			// Also a faulty item takes its place, so that later checks count as the reader does.
			one := list.AppendMutable().Message()
			if defaults := entryDefaults(fd); defaults != nil {
				proto.Merge(one.Interface(), defaults.Interface())
			}
			w.message(item, one, at, depth+1)
			continue
		}
		v, ok := w.value(item, fd, at, depth+1)
		if !ok {
			v = list.NewElement()
		}
		list.Append(v)
	}
}

func (w *walker) mapping(n *yaml.Node, m protoreflect.Message, fd protoreflect.FieldDescriptor, path string, depth int) {
	if !w.isNode(n, yaml.MappingNode, path, depth) {
		return
	}
	if isSecret(path) {
		defer func(was bool) { w.secret = was }(w.secret)
		w.secret = true
	}
	m.Clear(fd)
	entries := m.Mutable(fd).Map()
	for key, value := range w.pairs(n, path) {
		if w.secret && !isHeaderName(key.Value) {
			w.fault(key, path, "a name has lower-case letters, digits, dash, underscore and dot only") // it may be the secret
			continue
		}
		at := path + "[" + strconv.Quote(key.Value) + "]"
		w.origins[at] = w.origin(key)
		name, err := scalarFromText(fd.MapKey(), key.Value)
		if err != nil {
			w.fault(key, at, "key %s", err)
			continue
		}
		if isMessage(fd.MapValue()) {
			w.message(value, entries.Mutable(name.MapKey()).Message(), at, depth+1)
			continue
		}
		if v, ok := w.value(value, fd.MapValue(), at, depth+1); ok {
			entries.Set(name.MapKey(), v)
		}
	}
}

// value reads what is not made of further fields.
func (w *walker) value(n *yaml.Node, fd protoreflect.FieldDescriptor, path string, depth int) (protoreflect.Value, bool) {
	if isStruct(fd) {
		if !w.isNode(n, yaml.MappingNode, path, depth) {
			return protoreflect.Value{}, false
		}
		return protoreflect.ValueOfMessage(w.object(n, path, depth).ProtoReflect()), true
	}
	if n.Kind != yaml.ScalarNode && n.Kind != yaml.AliasNode {
		w.fault(n, path, "must be %s, is %s", typeName(fd), w.nodeName(n))
		return protoreflect.Value{}, false
	}
	if !w.isNode(n, yaml.ScalarNode, path, depth) {
		return protoreflect.Value{}, false
	}
	if !tagFits(n, fd) {
		w.fault(n, path, "must be %s, is %s%s", typeName(fd), w.nodeName(n), w.hint(n, fd))
		return protoreflect.Value{}, false
	}
	v, err := scalarFromText(fd, n.Value)
	if err != nil {
		w.fault(n, path, "%s", err)
		return protoreflect.Value{}, false
	}
	w.origins[path] = w.origin(n) // rather than of its key, which field noted
	return v, true
}

// object reads free-form YAML, as far as JSON can say it.
func (w *walker) object(n *yaml.Node, path string, depth int) *structpb.Struct {
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for key, value := range w.pairs(n, path) {
		s.Fields[key.Value] = w.free(value, path+"["+strconv.Quote(key.Value)+"]", depth+1)
	}
	return s
}

func (w *walker) free(n *yaml.Node, path string, depth int) *structpb.Value {
	switch {
	case n.Kind == yaml.MappingNode && depth <= maxFileDepth:
		return structpb.NewStructValue(w.object(n, path, depth))
	case n.Kind == yaml.SequenceNode && depth <= maxFileDepth:
		list := &structpb.ListValue{}
		for i, item := range n.Content {
			list.Values = append(list.Values, w.free(item, path+"["+strconv.Itoa(i)+"]", depth+1))
		}
		return structpb.NewListValue(list)
	case !w.isNode(n, yaml.ScalarNode, path, depth):
		return structpb.NewNullValue()
	}
	switch n.ShortTag() {
	case "!!null":
		return structpb.NewNullValue()
	case "!!bool":
		return structpb.NewBoolValue(n.Value[0] == 't' || n.Value[0] == 'T')
	case "!!int", "!!float":
		return w.number(n, path)
	default:
		return structpb.NewStringValue(n.Value)
	}
}

// number accepts what JSON calls a number. An integer that a double could turn
// into another one is a fault.
func (w *walker) number(n *yaml.Node, path string) *structpb.Value {
	const mostExact = 1 << 53 // of IEEE 754 doubles
	v, err := doubleFromText(n.Value)
	switch {
	case err != nil:
		w.fault(n, path, "%s", err)
	case n.ShortTag() == "!!int" && !isWithinBounds(n.Value, mostExact):
		w.fault(n, path, "is too large to be kept exactly; write it as a string")
	default:
		return structpb.NewNumberValue(v.Float())
	}
	return structpb.NewNullValue()
}

func isWithinBounds(digits string, most int64) bool {
	i, err := strconv.ParseInt(digits, 10, 64)
	return err == nil && -most <= i && i <= most
}

// secretPath is the field of the configuration whose values are credentials.
const secretPath = "backend.metadata.static"

// isSecret reports whether the value at a path must not be repeated.
func isSecret(path string) bool {
	path = ofOnly(path)
	return isWithin(path, secretPath) && !isWithin(path, secretPath+"_file")
}

// isHeaderName holds for the names that metadata of a backend may have.
func isHeaderName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == ""
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

const (
	durationName  = protoreflect.FullName("google.protobuf.Duration")
	timestampName = protoreflect.FullName("google.protobuf.Timestamp")
	structName    = protoreflect.FullName("google.protobuf.Struct")
)

// scalarError says in words what a value should look like.
type scalarError string

func (e scalarError) Error() string { return string(e) }

// isSize reports whether a field holds a number of bytes, which may be written
// with a unit.
func isSize(fd protoreflect.FieldDescriptor) bool {
	return strings.HasSuffix(string(fd.Name()), "_bytes") &&
		(fd.Kind() == protoreflect.Int32Kind || fd.Kind() == protoreflect.Int64Kind)
}

func isDuration(fd protoreflect.FieldDescriptor) bool { return isNamed(fd, durationName) }

func isTimestamp(fd protoreflect.FieldDescriptor) bool { return isNamed(fd, timestampName) }

// isStruct reports whether a field holds free-form YAML.
func isStruct(fd protoreflect.FieldDescriptor) bool { return isNamed(fd, structName) }

func isNamed(fd protoreflect.FieldDescriptor, name protoreflect.FullName) bool {
	return fd.Kind() == protoreflect.MessageKind && fd.Message().FullName() == name
}

// scalarFromText reads one value of a field (one item, if it is a list). All
// three sources use it, so that a value is written the same way everywhere. The
// error is a scalarError.
func scalarFromText(fd protoreflect.FieldDescriptor, text string) (protoreflect.Value, error) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BoolKind:
		return boolFromText(text)
	case protoreflect.Int32Kind:
		n, err := integerFromText(fd, text, math.MinInt32, math.MaxInt32)
		return protoreflect.ValueOfInt32(int32(n)), err
	case protoreflect.Int64Kind:
		n, err := integerFromText(fd, text, math.MinInt64, math.MaxInt64)
		return protoreflect.ValueOfInt64(n), err
	case protoreflect.DoubleKind:
		return doubleFromText(text)
	case protoreflect.EnumKind:
		return enumFromText(fd.Enum(), text)
	}
	switch {
	case isDuration(fd):
		return durationFromText(text)
	case isTimestamp(fd):
		return timestampFromText(text)
	}
	return protoreflect.Value{}, scalarError("cannot be written as one value")
}

func boolFromText(text string) (protoreflect.Value, error) {
	switch strings.ToLower(text) {
	case "true", "1":
		return protoreflect.ValueOfBool(true), nil
	case "false", "0":
		return protoreflect.ValueOfBool(false), nil
	}
	return protoreflect.Value{}, scalarError("must be true or false, is " + quote(text))
}

func integerFromText(fd protoreflect.FieldDescriptor, text string, least, most int64) (int64, error) {
	form := "must be a whole number in decimal digits"
	digits, unit := text, int64(1)
	if isSize(fd) {
		form = `must be a number of bytes, or a size such as "4MiB"`
		digits, unit = cutUnit(text)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case !isDecimal(digits):
		return 0, scalarError(form + ", is " + quote(text))
	case err != nil, n > most/unit, n < least/unit:
		return 0, scalarError("is out of range: " + quote(text))
	}
	return n * unit, nil
}

// isDecimal refuses what readers could take for different numbers: signs other
// than a minus, underscores, leading zeros (octal to some), other bases.
func isDecimal(s string) bool {
	s = strings.TrimPrefix(s, "-")
	if s == "" || (s[0] == '0' && len(s) > 1) {
		return false
	}
	return strings.Trim(s, "0123456789") == ""
}

// cutUnit splits "4MiB" or "4 MiB" into "4" and 1<<20. Decimal units are
// powers of 1000, as in the SI.
func cutUnit(text string) (digits string, unit int64) {
	units := [...]struct {
		name  string
		bytes int64
	}{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
	}
	for _, u := range units {
		if digits, ok := strings.CutSuffix(text, u.name); ok {
			return strings.TrimRight(digits, " "), u.bytes
		}
	}
	return text, 1
}

func doubleFromText(text string) (protoreflect.Value, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return protoreflect.Value{}, scalarError("must be a number, is " + quote(text))
	}
	return protoreflect.ValueOfFloat64(f), nil
}

func enumFromText(ed protoreflect.EnumDescriptor, text string) (protoreflect.Value, error) {
	if v := ed.Values().ByName(protoreflect.Name(text)); v != nil {
		return protoreflect.ValueOfEnum(v.Number()), nil
	}
	names := make([]string, ed.Values().Len())
	for i := range names {
		names[i] = string(ed.Values().Get(i).Name())
	}
	return protoreflect.Value{}, scalarError("must be one of " + strings.Join(names, ", ") + ", is " + quote(text))
}

func durationFromText(text string) (protoreflect.Value, error) {
	d, err := time.ParseDuration(text)
	// "0" is the one duration that Go accepts without a unit.
	if err != nil || text == "0" {
		return protoreflect.Value{}, scalarError(`must be a duration with its unit, such as "30s" or "1m30s", is ` + quote(text))
	}
	return protoreflect.ValueOfMessage(durationpb.New(d).ProtoReflect()), nil
}

func timestampFromText(text string) (protoreflect.Value, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return protoreflect.Value{}, scalarError(`must be a time such as "2026-07-28T00:00:00Z", is ` + quote(text))
	}
	return protoreflect.ValueOfMessage(timestamppb.New(at).ProtoReflect()), nil
}

// quote shows a value in a message: on one line, and not too much of it.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "..."
	}
	return fmt.Sprintf("%q", s)
}

// Kind is the kind of command that a configuration is for. It determines the
// available flags, the defaults, and the checks that apply.
type Kind uint8

const (
	// Serve is a command that opens the listeners.
	Serve Kind = 1 << iota
	// Stdio is a command that communicates over standard input and output. It opens
	// only the listeners that are configured, and records nothing by default.
	Stdio
	// Once is a command that performs one operation with the tool service and exits
	// (tools, call, doctor). It opens no listener.
	Once
	// State is a command that looks at what replicas share. It needs no backend.
	State
)

// nearest returns the known name that a wrong one was probably meant to be, or
// "" if none is close. Case, dashes and underscores do not count.
func nearest(wrong string, known iter.Seq[string]) string {
	const longest = 64 // no name of ours is longer, and the distance is quadratic
	if len(wrong) > longest {
		return ""
	}
	folded := fold(wrong)
	best, least := "", len(folded)/3+2
	for name := range known {
		if d := distance(folded, fold(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
}

// distance is the number of bytes to insert, drop, replace or swap with their
// neighbour (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// defaultText renders the default at a dotted path, or "" where there is none.
func defaultText(m protoreflect.Message, path string) string {
	for {
		name, rest, deeper := strings.Cut(path, ".")
		fd := fieldOf(m, name)
		if !m.Has(fd) {
			return ""
		}
		if !deeper {
			return valueText(fd, m.Get(fd))
		}
		m, path = m.Get(fd).Message(), rest
	}
}

// valueText renders a value as the file would have it.
func valueText(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch {
	case fd.IsList():
		items := make([]string, v.List().Len())
		for i := range items {
			items[i] = v.List().Get(i).String()
		}
		return strings.Join(items, ", ")
	case isDuration(fd):
		d, _ := v.Message().Interface().(*durationpb.Duration)
		return durationText(d)
	case isSize(fd):
		return sizeText(v.Int())
	default:
		return v.String()
	}
}

// durationText uses seconds, as the message's own definition does.
func durationText(d *durationpb.Duration) string {
	if short := d.AsDuration(); short > 0 && short < time.Millisecond {
		return strconv.FormatFloat(float64(short)/float64(time.Microsecond), 'f', -1, 64) + "us"
	}
	return strconv.FormatFloat(d.AsDuration().Seconds(), 'f', -1, 64) + "s"
}

// sizeText uses the largest unit that needs no fraction.
func sizeText(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 10<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	default:
		return strconv.FormatInt(n, 10)
	}
}
