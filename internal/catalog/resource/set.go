// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

// Set holds the methods of a catalog that provide resources. It is immutable and safe for concurrent use.
type Set struct {
	fixed, templates, listings []*Method // by URI or template, then procedure
	byURI                      map[string]*Method
	watches                    map[string]*Method // by URI without a query
	byPrecision                []*Method          // templates, the most specific first
	fingerprint                string
}

// Fixed returns the methods that each provide one resource, sorted by URI. A watch may be among Templates, too.
func (r *Set) Fixed() []*Method { return r.fixed }

// Templates returns the methods that each provide a family of resources, sorted by template.
func (r *Set) Templates() []*Method { return r.templates }

// Listings returns the methods that list resources, sorted by template.
func (r *Set) Listings() []*Method { return r.listings }

// All returns all methods. A watch may be there twice.
func (r *Set) All() []*Method { return slices.Concat(r.fixed, r.templates, r.listings) }

// HasWatches reports whether there is a watch.
func (r *Set) HasWatches() bool { return len(r.watches) > 0 }

// IsEmpty reports whether no method provides resources.
func (r *Set) IsEmpty() bool { return len(r.fixed)+len(r.templates)+len(r.listings) == 0 }

// Fingerprint returns the SHA-256 of everything visible to callers before a resource is read, as 64 lowercase hex digits.
func (r *Set) Fingerprint() string { return r.fingerprint }

// Match finds the method that reads a URI, and the values of its template's variables. An exact URI wins over
// templates. Among templates, the one with the most literal characters wins.
//
// URIs are compared as written: no case folding, no resolution of dot segments, and no decoding before the template is
// chosen. A value therefore reaches the method unchanged and never affects which method is chosen. A "/" within a value
// must be percent-encoded. Values are not empty. Request checks whether they fit the method's fields.
//
// A watch is found by its URI without the query. There are no variables then: [Method.WatchRequest] reads the query.
func (r *Set) Match(uri string) (method *Method, variables map[string]string, ok bool) {
	if len(uri) > limits().uri {
		return nil, nil, false
	}
	if base, _, _ := strings.Cut(uri, "?"); r.watches[base] != nil {
		return r.watches[base], nil, true
	}
	if m := r.byURI[uri]; m != nil {
		return m, nil, true
	}
	for _, m := range r.byPrecision {
		if variables, ok := m.template.match(uri); ok {
			return m, variables, true
		}
	}
	return nil, nil, false
}

// Ambiguity is a pair of methods that could both read the same URI, neither of them more specific.
type Ambiguity struct{ One, Two *Method }

// NewSet orders the methods and returns the ambiguous pairs among them.
func NewSet(methods []*Method) (*Set, []Ambiguity) {
	r := &Set{byURI: map[string]*Method{}, watches: map[string]*Method{}}
	slices.SortFunc(methods, func(a, b *Method) int {
		return cmp.Or(cmp.Compare(a.template.text, b.template.text), cmp.Compare(a.rpc.Procedure, b.rpc.Procedure))
	})
	methods = slices.Compact(methods)
	var ambiguous []Ambiguity
	for _, m := range methods {
		switch {
		case m.isWatch:
			r.addWatch(m)
		case m.items != nil:
			r.listings = append(r.listings, m)
		case len(m.variables) == 0:
			r.fixed = append(r.fixed, m)
			if other := r.byURI[m.template.text]; other != nil {
				ambiguous = append(ambiguous, Ambiguity{other, m})
			}
			r.byURI[m.template.text] = m
		default:
			r.templates = append(r.templates, m)
		}
	}
	r.byPrecision = slices.DeleteFunc(slices.Clone(r.templates), (*Method).IsWatch)
	slices.SortStableFunc(r.byPrecision, func(a, b *Method) int { return cmp.Compare(b.template.literals, a.template.literals) })
	for i, m := range r.byPrecision {
		for _, other := range r.byPrecision[i+1:] {
			if other.template.literals < m.template.literals {
				break
			}
			if m.template.overlaps(other.template) {
				ambiguous = append(ambiguous, Ambiguity{m, other})
			}
		}
	}
	r.fingerprint = fingerprintOf(methods)
	return r, ambiguous
}

func (r *Set) addWatch(m *Method) {
	r.watches[m.template.text] = m
	if m.resource != nil {
		r.fixed = append(r.fixed, m)
	}
	if m.family != nil {
		r.templates = append(r.templates, m)
	}
}

// Only returns the subset of methods that keep accepts. A subset of an unambiguous set is never ambiguous.
func (r *Set) Only(keep func(m *Method) bool) *Set {
	methods := slices.DeleteFunc(r.All(), func(m *Method) bool { return !keep(m) })
	out, _ := NewSet(methods)
	return out
}

// Unreadable returns the listings whose resources no method reads, as far as can be determined.
func (r *Set) Unreadable() []*Method {
	return slices.DeleteFunc(slices.Clone(r.listings), func(listing *Method) bool {
		return slices.ContainsFunc(slices.Concat(r.fixed, r.templates), func(m *Method) bool {
			return m.template.overlaps(listing.template)
		})
	})
}

// fingerprintOf is the SHA-256 over what callers can see of the methods, which are sorted.
func fingerprintOf(methods []*Method) string {
	hash := sha256.New()
	for _, m := range methods {
		for _, seen := range []proto.Message{m.options, m.resource, m.family} {
			raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(seen)
			if err != nil {
				raw = []byte(err.Error()) // texts of descriptors are UTF-8, so there is none
			}
			fmt.Fprintf(hash, "%s %d\n", m.rpc.Procedure, len(raw))
			hash.Write(raw)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Items extracts the resources that a method among Listings lists, in order, from the JSON of its response as the
// transcoder writes it. If some items are invalid as resources, or there are too many, the error says which and why.
// The others are returned with the error.
func (m *Method) Items(response []byte) ([]*outriggerv1.Resource, error) {
	if m.items == nil {
		return nil, errors.New("the method does not list resources")
	}
	list, ok := m.items.in(response)
	if !ok {
		return nil, nil
	}
	var out []*outriggerv1.Resource
	var left []string
	n := 0
	for item := range jsontext.Elements(list) {
		n++
		if len(out) == limits().listed {
			left = append(left, fmt.Sprintf("those after the first %d", limits().listed))
			break
		}
		resource, err := m.item(item)
		if err != nil {
			left = append(left, fmt.Sprintf("item %d: %v", n, err))
			continue
		}
		out = append(out, resource)
	}
	if len(left) > 0 {
		return out, fmt.Errorf("not all items are resources: %s", shown.ClipList(left))
	}
	return out, nil
}

// item makes a resource of one item.
func (m *Method) item(item []byte) (*outriggerv1.Resource, error) {
	values := map[string]string{}
	for _, v := range m.variables {
		raw, ok := v.field.in(item)
		if !ok {
			return nil, fmt.Errorf("it has no %s", v.name)
		}
		text, isText := jsontext.Text(raw)
		if !isText {
			text = string(raw)
		}
		// What a reading would refuse is the URI of nothing.
		if _, err := appendValue(nil, v.field.last(), text); err != nil {
			return nil, err
		}
		values[v.name] = text
	}
	uri := m.template.expand(values)
	if len(uri) > limits().uri {
		return nil, fmt.Errorf("its URI has %d bytes; the limit is %d", len(uri), limits().uri)
	}
	o := m.options
	out := &outriggerv1.Resource{
		Uri: uri, Title: shown.OneSpaced(o.GetTitle()), Description: shown.Clean(o.GetDescription()),
		MimeType: o.GetMimeType(), Annotations: o.GetAnnotations(),
	}
	label := ""
	if m.label != nil {
		raw, _ := m.label.in(item)
		label, _ = jsontext.Text(raw)
		label, _ = shown.CutBytes(shown.OneSpaced(label), limits().name)
	}
	out.Name = cmp.Or(label, shown.OneSpaced(o.GetName()), m.rpc.Name)
	out.Title = cmp.Or(label, out.Title)
	return out, nil
}

// ErrNone is wrapped by the error for a URI that matches a template but that no resource can have.
var ErrNone = errors.New("there is no such resource")

// Request builds the JSON of the request that reads a resource from the variables of its URI. The error wraps ErrNone
// if a value is invalid for its field: numbers are decimal and in their shortest form, bools are true or false, and enums
// are names. The request of a method among Listings has no members.
func (m *Method) Request(variables map[string]string) ([]byte, error) {
	return appendArguments(nil, m.arguments, variables)
}

func appendArguments(dst []byte, members []*argument, variables map[string]string) ([]byte, error) {
	dst = append(dst, '{')
	for i, a := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsontext.AppendString(dst, a.name), ':')
		var err error
		if a.variable == "" {
			dst, err = appendArguments(dst, a.members, variables)
		} else {
			dst, err = appendValue(dst, a.field, variables[a.variable])
		}
		if err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// appendValue appends the value of a field as ProtoJSON has it.
func appendValue(dst []byte, fd protoreflect.FieldDescriptor, value string) ([]byte, error) {
	refused := func(wanted string) error {
		return fmt.Errorf("%w: %s is %s, found %q", ErrNone, fd.Name(), wanted, shown.Clip(value))
	}
	signed := func(bits int) error {
		if n, err := strconv.ParseInt(value, 10, bits); err != nil || strconv.FormatInt(n, 10) != value {
			return refused(fmt.Sprintf("an integer of %d bits", bits))
		}
		return nil
	}
	unsigned := func(bits int) error {
		if n, err := strconv.ParseUint(value, 10, bits); err != nil || strconv.FormatUint(n, 10) != value {
			return refused(fmt.Sprintf("an integer of %d bits without a sign", bits))
		}
		return nil
	}
	var err error
	switch fd.Kind() {
	case protoreflect.BoolKind:
		if value != "true" && value != "false" {
			err = refused("true or false")
		}
		return append(dst, value...), err
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return append(dst, value...), signed(32)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return append(dst, value...), unsigned(32)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		err = signed(64)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		err = unsigned(64)
	case protoreflect.EnumKind:
		if fd.Enum().Values().ByName(protoreflect.Name(value)) == nil {
			err = refused("one of " + enumNames(fd.Enum()))
		}
	default:
		if value == "" {
			err = refused("a text")
		}
	}
	return jsontext.AppendString(dst, value), err
}

func enumNames(ed protoreflect.EnumDescriptor) string {
	var names []string
	for i := range ed.Values().Len() {
		names = append(names, string(ed.Values().Get(i).Name()))
	}
	return shown.ClipList(names)
}

// Contents extracts the contents of a resource from the JSON of a response as the transcoder writes it. An absent field
// counts as empty. An error means that the response cannot be resource contents: its media type is invalid, or
// the method lists.
func (m *Method) Contents(uri string, response []byte) (*outriggerv1.ResourceContents, error) {
	if m.items != nil {
		return nil, errors.New("the method lists resources, and has no contents")
	}
	mediaType, err := m.mediaType(response)
	if err != nil {
		return nil, err
	}
	out := &outriggerv1.ResourceContents{Uri: uri, MimeType: mediaType}
	if m.content == nil {
		out.Data = &outriggerv1.ResourceContents_Text{Text: string(response)}
		return out, nil
	}
	text := ""
	if raw, ok := m.content.in(response); ok {
		if text, ok = jsontext.Text(raw); !ok {
			return nil, fmt.Errorf("the member %s of the response is no string", strings.Join(m.content.names, "."))
		}
	}
	if m.content.last().Kind() == protoreflect.StringKind {
		out.Data = &outriggerv1.ResourceContents_Text{Text: text}
		return out, nil
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("the member %s of the response is no base64: %w", strings.Join(m.content.names, "."), err)
	}
	if m.rpc.HTTPBody && isTextType(mediaType) && utf8.Valid(blob) {
		out.Data = &outriggerv1.ResourceContents_Text{Text: string(blob)}
	} else {
		out.Data = &outriggerv1.ResourceContents_Blob{Blob: blob}
	}
	return out, nil
}

// mediaType is the media type that the response names, or that was declared.
func (m *Method) mediaType(response []byte) (string, error) {
	if m.mimeType == nil {
		return m.defaultType(), nil
	}
	raw, _ := m.mimeType.in(response)
	named, _ := jsontext.Text(raw)
	if named == "" {
		return m.defaultType(), nil
	}
	if !isMediaType(named) {
		return "", fmt.Errorf("the response names the media type %q, which is none", shown.Clip(named))
	}
	return named, nil
}

// isMediaType reports whether a text is a media type, with parameters or without (RFC 9110, section 8.3.1).
func isMediaType(text string) bool {
	kind, _, err := mime.ParseMediaType(text)
	return err == nil && strings.Contains(kind, "/") && len(text) <= limits().mime && strings.IndexFunc(text, shown.IsUnprintable) < 0
}

// isTextType reports whether a media type is one of text in UTF-8.
func isTextType(mediaType string) bool {
	kind, params, err := mime.ParseMediaType(mediaType)
	charset := strings.ToLower(params["charset"])
	if err != nil || charset != "" && charset != "utf-8" && charset != "utf8" && charset != "us-ascii" {
		return false
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") ||
		kind == mimeJSON || kind == "application/xml"
}
