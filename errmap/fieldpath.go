// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// fieldPath writes a JSON Pointer as google.rpc.BadRequest names fields: emailAddresses[0].email, labels["a key"]. md is the
// message that the pointer leads into, nil where it is not known.
func fieldPath(md protoreflect.MessageDescriptor, pointer string) string {
	if pointer == "" {
		return ""
	}
	var out []byte
	var key protoreflect.FieldDescriptor // of the map that the next token is a key of
	inList := false
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = unescapeToken.Replace(token)
		fd := fieldNamed(md, token)
		switch {
		case key != nil && key.Kind() == protoreflect.StringKind, key == nil && !inList && fd == nil && !isPlainName(token) && !isIndex(token):
			out = append(strconv.AppendQuote(append(out, '['), token), ']')
		case key != nil, inList, fd == nil && isIndex(token):
			out = append(append(append(out, '['), token...), ']')
		case fd != nil:
			out = appendName(out, fd.JSONName())
		default:
			out = appendName(out, token)
		}
		if key != nil || inList {
			key, inList = nil, false // md is that of the values
			continue
		}
		md = nil
		if fd == nil {
			continue
		}
		inList = fd.IsList()
		if fd.IsMap() {
			key, fd = fd.MapKey(), fd.MapValue()
		}
		if md = fd.Message(); md != nil && md.ParentFile().Package() == "google.protobuf" {
			md = nil // its JSON has other members, or none
		}
	}
	return string(out)
}

// unescapeToken reads a token of a JSON Pointer.
var unescapeToken = strings.NewReplacer("~1", "/", "~0", "~")

func appendName(dst []byte, name string) []byte {
	if len(dst) > 0 {
		dst = append(dst, '.')
	}
	return append(dst, name...)
}

// fieldNamed is the field with one of the names that JSON may use for it.
func fieldNamed(md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if md == nil {
		return nil
	}
	if fd := md.Fields().ByJSONName(name); fd != nil {
		return fd
	}
	return md.Fields().ByTextName(name)
}

// isIndex holds for the index of a list.
func isIndex(token string) bool {
	_, err := strconv.ParseUint(token, 10, 32)
	return err == nil
}

// isPlainName holds for names of fields, and for those of extensions in brackets.
func isPlainName(token string) bool {
	if inner, ok := strings.CutPrefix(token, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		return ok && protoreflect.FullName(inner).IsValid()
	}
	return protoreflect.Name(token).IsValid()
}

// maxReasonBytes is the limit of google.rpc.BadRequest.
const maxReasonBytes = 63

// reasonOf writes the keyword of a violation as google.rpc.BadRequest names reasons: minLength is MIN_LENGTH, string.email is
// STRING_EMAIL.
func reasonOf(keyword string) string {
	out := make([]byte, 0, len(keyword))
	lower := false
	for i := range min(len(keyword), 2*maxReasonBytes) {
		switch c := keyword[i]; {
		case c >= 'a' && c <= 'z':
			out, lower = append(out, c-'a'+'A'), true
		case c >= 'A' && c <= 'Z':
			if lower {
				out = append(out, '_')
			}
			out, lower = append(out, c), false
		case c >= '0' && c <= '9' && len(out) > 0:
			out, lower = append(out, c), true
		default:
			if len(out) > 0 && out[len(out)-1] != '_' {
				out = append(out, '_')
			}
			lower = false
		}
	}
	return strings.TrimRight(string(out[:min(len(out), maxReasonBytes)]), "_")
}
