// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// secretOption is the number of the option (outrigger.v1.field), and secretMember that of
// its member.
const (
	secretOption = 50719
	secretMember = 1
)

// Message is what is secret in the JSON form of a message type. A nil Message has no secret
// field, at no depth. It is immutable.
type Message struct {
	// fields are those that are secret, or lead to one, by each name that JSON may have for
	// them.
	fields map[string]field
	// secrets are the names of all secret fields at every depth.
	secrets Names
}

// field is one field; isMap is set if its value is an object of messages by key.
type field struct {
	isSecret, isMap bool
	message         *Message
}

// Items returns what is secret in {"items": [...]}, a list of messages.
func Items(m *Message) *Message {
	if m == nil {
		return nil
	}
	return &Message{fields: map[string]field{"items": {message: m}}, secrets: m.secrets}
}

// Arguments returns what is secret in {"items": [...], "header": ...}, where the header has the value of a field of the
// message. The name of the field is empty if there is no header.
func Arguments(m *Message, header string) *Message {
	out := Items(m)
	if out == nil || header == "" {
		return out
	}
	if f, ok := m.fields[header]; ok {
		out.fields["header"] = f
	}
	return out
}

// Secrets returns the names of the secret fields at every depth, for JSON that quotes the
// message somewhere. Do not change them.
func (m *Message) Secrets() Names {
	if m == nil {
		return nil
	}
	return m.secrets
}

// maxMessages bounds the types that are kept: more than a catalog of the maximum size has
// for its requests and responses.
const maxMessages = 50_000

// Messages compiles message types, each once. The zero value is ready to use, and safe for
// concurrent use.
type Messages struct {
	mu   sync.Mutex
	made map[protoreflect.MessageDescriptor]*Message
}

// Of returns what is secret in a message type, nil if nothing is.
func (m *Messages) Of(md protoreflect.MessageDescriptor) *Message {
	if md == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.made[md]; ok {
		return found
	}
	if m.made == nil || len(m.made) >= maxMessages {
		m.made = map[protoreflect.MessageDescriptor]*Message{}
	}
	made := compile(md)
	m.made[md] = made
	return made
}

// compile walks the types that a message can hold, each once.
func compile(md protoreflect.MessageDescriptor) *Message {
	all, secrets := map[protoreflect.FullName]*Message{}, Names{}
	root := walk(md, all, secrets)
	if len(secrets) == 0 {
		return nil
	}
	root.secrets = secrets
	return root
}

func walk(md protoreflect.MessageDescriptor, all map[protoreflect.FullName]*Message, secrets Names) *Message {
	if made, ok := all[md.FullName()]; ok {
		return made
	}
	out := &Message{fields: map[string]field{}}
	all[md.FullName()] = out
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		f := field{isSecret: IsSecret(fd)}
		switch {
		case f.isSecret:
			secrets[fold(string(fd.Name()))], secrets[fold(fd.JSONName())] = struct{}{}, struct{}{}
		case fd.IsMap() && fd.MapValue().Message() != nil:
			f.message, f.isMap = walk(fd.MapValue().Message(), all, secrets), true
		case fd.Message() != nil && !fd.IsMap():
			f.message = walk(fd.Message(), all, secrets)
		default:
			continue
		}
		out.fields[string(fd.Name())], out.fields[fd.JSONName()] = f, f
	}
	return out
}

// IsSecret reports whether a field is marked as secret. It reads the options from their
// bytes: descriptors that were built at run time hold extensions as unknown fields, and
// those that are linked in as typed ones.
func IsSecret(fd protoreflect.FieldDescriptor) bool {
	options, ok := fd.Options().(*descriptorpb.FieldOptions)
	if !ok || options == nil {
		return false
	}
	if options.GetDebugRedact() {
		return true
	}
	raw, err := proto.Marshal(options)
	if err != nil {
		return true // what cannot be read may have said so
	}
	return marksSecret(raw)
}

// marksSecret looks for the option in the bytes of FieldOptions. What is there and cannot
// be read counts as secret.
func marksSecret(raw []byte) (secret bool) {
	for len(raw) > 0 {
		num, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return true
		}
		raw = raw[n:]
		size := protowire.ConsumeFieldValue(num, kind, raw)
		if size < 0 {
			return true
		}
		if num == secretOption && kind == protowire.BytesType {
			body, _ := protowire.ConsumeBytes(raw)
			secret = memberOf(body, secret)
		}
		raw = raw[size:]
	}
	return secret
}

// memberOf is the member secret of the option. The last one counts, and the one before
// where there is none: an option that is set in parts arrives in parts.
func memberOf(body []byte, before bool) bool {
	for len(body) > 0 {
		num, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return true
		}
		body = body[n:]
		size := protowire.ConsumeFieldValue(num, kind, body)
		if size < 0 {
			return true
		}
		if num == secretMember && kind == protowire.VarintType {
			value, _ := protowire.ConsumeVarint(body)
			before = value != 0
		}
		body = body[size:]
	}
	return before
}
