// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

// watchURI begins the URI of a watch; the canonical name of the tool follows.
const watchURI = "outrigger://watches/"

// NewWatch returns the method for a watch: a server stream whose newest message is a resource. The scalar fields of its
// request are optional query parameters of the URI. accepts returns an error if the RPC refuses a request, in JSON.
// The error of NewWatch says why the RPC cannot be a watch.
func NewWatch(rpc RPC, accepts func(arguments []byte) error) (*Method, error) {
	md := rpc.Descriptor
	switch {
	case md.IsStreamingClient() || !md.IsStreamingServer():
		return nil, errors.New("only a server-streaming RPC can be watched")
	case rpc.Destructive:
		return nil, errors.New("the RPC is marked destructive, and a watch calls it again and again")
	case rpc.HTTPBody:
		return nil, errors.New("its messages are parts of one document, and no states of one thing")
	}
	m := &Method{rpc: rpc, options: &configv1.ResourceOptions{}, isWatch: true}
	var err error
	if m.template, err = parseTemplate(watchURI + rpc.Name); err != nil {
		return nil, err
	}
	if !schema.IsWrapped(md.Input(), schema.Input) {
		m.variables = queryVariables(md.Input())
	}
	if accepts([]byte(jsontext.EmptyObject)) == nil {
		m.resource = rpc.resource(m.template.text, mimeJSON)
	}
	if len(m.variables) > 0 {
		m.family = rpc.family(m.URITemplate(), mimeJSON)
	}
	if m.resource == nil && m.family == nil {
		return nil, errors.New("its request is invalid when it is empty, and it has no field that could be a query parameter (a single string, number, bool or enum)")
	}
	return m, nil
}

// IsWatch reports whether the method was made by [NewWatch]. Call [Method.WatchRequest] for its request.
func (m *Method) IsWatch() bool { return m.isWatch }

// queryVariables are the fields of a request that a query can set.
func queryVariables(md protoreflect.MessageDescriptor) []variable {
	var out []variable
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		name := schema.Names(fd)[0]
		if !isFieldPath(name) || strings.Contains(name, ".") {
			name = string(fd.Name()) // json_name may be any text
		}
		isScalar := isVariable(fd) == nil || !fd.IsList() && (fd.Kind() == protoreflect.FloatKind || fd.Kind() == protoreflect.DoubleKind)
		if isScalar && !schema.BehaviorOf(fd).OutputOnly {
			out = append(out, variable{name, &field{names: []string{schema.Names(fd)[0]}, way: []protoreflect.FieldDescriptor{fd}}})
		}
	}
	return out
}

// watchTemplate is the URI template of a watch: level 3 of RFC 6570, form-style query expansion.
func (m *Method) watchTemplate() string {
	if len(m.variables) == 0 {
		return m.template.text
	}
	names := make([]string, len(m.variables))
	for i, v := range m.variables {
		names[i] = v.name
	}
	return m.template.text + "{?" + strings.Join(names, ",") + "}"
}

// WatchRequest builds the JSON of the request that opens the stream of a watch, from its URI. Its members are in the
// order of the fields, so that equal requests have equal texts. Whether the RPC takes them is for the transcoder to say.
func (m *Method) WatchRequest(uri string) ([]byte, error) {
	base, query, hasQuery := strings.Cut(uri, "?")
	if !m.isWatch || base != m.template.text {
		return nil, errors.New("it is not the URI of this watch")
	}
	values := make([]*string, len(m.variables))
	if hasQuery {
		for pair := range strings.SplitSeq(query, "&") {
			if err := m.setQuery(values, pair); err != nil {
				return nil, err
			}
		}
	}
	out := []byte{'{'}
	for i, v := range m.variables {
		if values[i] == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsontext.AppendString(out, v.field.names[0]), ':')
		var err error
		if out, err = appendQueryValue(out, v.field.last(), *values[i]); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// setQuery reads one "name=value" of a query.
func (m *Method) setQuery(values []*string, pair string) error {
	name, value, ok := strings.Cut(pair, "=")
	if !ok {
		return fmt.Errorf("%q in the query is not name=value", shown.Clip(pair))
	}
	for i, v := range m.variables {
		if v.name != name {
			continue
		}
		if values[i] != nil {
			return fmt.Errorf("%s is in the query twice", name)
		}
		text, ok := percentDecoded(value)
		if !ok || strings.IndexFunc(value, isNoQuery) >= 0 {
			return fmt.Errorf("the value of %s is not percent-encoded UTF-8", name)
		}
		values[i] = &text
		return nil
	}
	if len(m.variables) == 0 {
		return fmt.Errorf("it has no query parameters, found %q", shown.Clip(name))
	}
	return fmt.Errorf("it has no query parameter %q; its template is %s", shown.Clip(name), m.watchTemplate())
}

// isNoQuery holds for characters that no query has (RFC 3986, section 3.4).
func isNoQuery(r rune) bool {
	return r <= ' ' || r >= 0x7F || strings.ContainsRune("\"#<>[\\]^`{|}", r)
}

// appendQueryValue appends the value of a field as ProtoJSON has it. Texts may be empty, and there are fractions.
func appendQueryValue(dst []byte, fd protoreflect.FieldDescriptor, value string) ([]byte, error) {
	switch fd.Kind() { //nolint:exhaustive // the others are as in paths
	case protoreflect.StringKind:
		return jsontext.AppendString(dst, value), nil
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if _, err := strconv.ParseFloat(value, 64); err != nil || strings.ContainsAny(value, "_xXpP") {
			return nil, fmt.Errorf("%s is a number, found %q", fd.Name(), shown.Clip(value))
		}
		return jsontext.AppendString(dst, value), nil
	}
	return appendValue(dst, fd, value)
}
