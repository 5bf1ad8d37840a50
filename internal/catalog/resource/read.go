// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

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
	if err != nil || charset != "" && charset != "utf-8" && charset != "us-ascii" {
		return false
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") ||
		kind == mimeJSON || kind == "application/xml"
}
