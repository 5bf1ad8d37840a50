// SPDX-License-Identifier: Apache-2.0

// Package redact copies JSON payloads without their secrets, for run records and the audit
// trail.
//
// A member is secret by its name, wherever it is ([Redactor]), or by its field: a
// [Message] knows which fields of a message type are marked with debug_redact or
// (outrigger.v1.field).secret, at every depth. It is compiled once for a type and cached
// ([Messages]).
package redact

import (
	"bytes"
	"maps"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// maxDepth bounds the recursion over what is recorded. The edges stop far below it.
const maxDepth = 10_000

// isJSON reports whether raw is one strict JSON value.
func isJSON(raw []byte) bool { return jsontext.Check(raw, maxDepth) == nil }

const (
	// redacted is where a secret was.
	redacted = `"[redacted]"`
	// maxInnerTexts bounds JSON inside of JSON strings inside of JSON strings.
	// Escapes double with every layer, so nothing within a payload's bound
	// comes near it.
	maxInnerTexts = 16
)

// Redactor copies JSON without the values of secret members: those with a name of Base or
// Extra, in any object and in JSON inside of strings. Extra may be nil.
type Redactor struct {
	Base  Names
	Extra []Names
}

func (r Redactor) secret(name []byte) bool {
	if r.Base.has(name) {
		return true
	}
	for _, more := range r.Extra {
		if more.has(name) {
			return true
		}
	}
	return false
}

// AppendPayload appends raw, compact and redacted, or what says why it is left
// out. Nothing is null. What it appends is at most three times as long as raw:
// the shortest secret member, "a":1 and a comma, grows from 6 bytes to 17. size is the
// length of the payload, of which raw may lack what is above limit.
func (r Redactor) AppendPayload(dst, raw []byte, size, limit int) []byte {
	switch {
	case size == 0:
		return append(dst, "null"...)
	case size > limit:
		return appendOmitted(dst, size, "too large")
	case !isJSON(raw):
		return appendOmitted(dst, size, "not JSON")
	}
	dst, _ = r.append(dst, raw, 0)
	return dst
}

// appendOmitted appends the note that represents a payload that is left out.
// Its one member has a name that no payload of a peer's own has by chance.
func appendOmitted(dst []byte, size int, why string) []byte {
	dst = append(dst, `{"dev.outrigger/omitted":{"bytes":`...)
	dst = strconv.AppendInt(dst, int64(size), 10)
	dst = append(dst, `,"reason":"`...)
	dst = append(dst, why...)
	return append(dst, `"}}`...)
}

// append copies one valid JSON text. In valid JSON a string is a name exactly
// where a colon follows, so no stack is needed. It reports whether it took
// anything away.
func (r Redactor) append(dst, raw []byte, layer int) (out []byte, changed bool) {
	for pos := 0; pos < len(raw); {
		switch raw[pos] {
		case ' ', '\t', '\n', '\r':
			pos++
			continue
		case '"':
		default:
			dst = append(dst, raw[pos])
			pos++
			continue
		}
		end := jsontext.SkipString(raw, pos)
		text := raw[pos:end]
		pos = jsontext.SkipSpace(raw, end)
		if pos == len(raw) || raw[pos] != ':' {
			var took bool
			dst, took = r.appendString(dst, text, layer)
			changed = changed || took
			continue
		}
		dst = append(append(dst, text...), ':')
		pos = jsontext.SkipSpace(raw, pos+1)
		if r.secret(decoded(text)) {
			dst = append(dst, redacted...)
			pos, changed = jsontext.SkipValue(raw, pos), true
		}
	}
	return dst, changed
}

// appendString copies a string value. Tools answer in JSON inside of text, and
// models send it so: what is JSON is redacted as such. A text that is not, but
// has a quoted secret name before a colon (a piece of JSON, several lines of it,
// a printed map), is not worth the risk.
func (r Redactor) appendString(dst, text []byte, layer int) (out []byte, changed bool) {
	inner := decoded(text)
	switch start := jsontext.SkipSpace(inner, 0); {
	case start == len(inner):
		return append(dst, text...), false
	case (inner[start] == '{' || inner[start] == '[' || inner[start] == '"') && isJSON(inner):
		if layer == maxInnerTexts {
			return append(dst, redacted...), true
		}
		clean, took := r.append(nil, inner, layer+1)
		if took {
			return jsontext.AppendText(dst, clean), true
		}
	case r.namesSecret(inner):
		return append(dst, redacted...), true
	}
	return append(dst, text...), false
}

const (
	// maxInnerName bounds the names that are looked for in a text.
	maxInnerName = 256
	// maxInnerEscapes bounds the layers of escapes in such a name.
	maxInnerEscapes = 4
)

// namesSecret reports whether a colon in the text follows a secret name in
// quotes, single ones and escaped ones too.
func (r Redactor) namesSecret(text []byte) bool {
	for from := 0; ; {
		colon := bytes.IndexByte(text[from:], ':')
		if colon < 0 {
			return false
		}
		colon += from
		from = colon + 1
		before := bytes.TrimRight(text[:colon], " \t\r\n")
		before = before[max(0, len(before)-maxInnerName):]
		if len(before) == 0 {
			continue
		}
		quote := before[len(before)-1]
		if quote != '"' && quote != '\'' {
			continue
		}
		before = bytes.TrimRight(before[:len(before)-1], `\`)
		name := before[bytes.LastIndexByte(before, quote)+1:]
		for range maxInnerEscapes {
			if bytes.IndexByte(name, '\\') < 0 {
				break
			}
			quoted, scratch := `"`+string(name)+`"`, []byte(nil)
			plain, end := jsontext.ReadString([]byte(quoted), 0, &scratch)
			if end != len(quoted) {
				break
			}
			name = plain
		}
		if r.secret(name) {
			return true
		}
	}
}

// decoded returns what a valid JSON string represents.
func decoded(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text[1 : len(text)-1]
	}
	return jsontext.AppendDecoded(make([]byte, 0, len(text)), text)
}

// secretOption is the number of the option (outrigger.v1.field), and secretMember and classMember those of
// its members.
const (
	secretOption = 50719
	secretMember = 1
	classMember  = 2
)

// Message is what is secret in the JSON form of a message type. A nil Message has no secret
// field, at no depth. It is immutable.
type Message struct {
	// fields are those that are secret, or lead to one, by each name that JSON may have for
	// them.
	fields map[string]field
	// secrets are the names of all secret fields at every depth.
	secrets Names
	// isWhole is set for a message that is left out as a whole.
	isWhole bool
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

// anyMember is the name, in a path, of members of any name.
const anyMember = "*"

// With returns the message with more secret fields: those at paths, which are names from the root with dots between them, as the
// descriptor or JSON has them, through lists; "*" is each member of an object with members of any name. A nil message is one without
// a type.
func (m *Message) With(paths ...string) *Message {
	if len(paths) == 0 {
		return m
	}
	out := m.own()
	for _, path := range paths {
		at := out
		for name, rest, more := strings.Cut(path, "."); ; name, rest, more = strings.Cut(rest, ".") {
			if !more || rest == anyMember {
				at.mark(name, field{isSecret: true})
				out.secrets.add(name)
				break
			}
			below := at.fields[name]
			if below.isSecret {
				break
			}
			if tail, ok := strings.CutPrefix(rest, anyMember+"."); ok {
				below.isMap, rest = true, tail
			}
			below.message = below.message.own()
			at.mark(name, below)
			at = below.message
		}
	}
	return out
}

// own returns a copy of the message whose fields may be changed.
func (m *Message) own() *Message {
	out := &Message{fields: map[string]field{}, secrets: Names{}}
	if m != nil {
		maps.Copy(out.fields, m.fields)
		maps.Copy(out.secrets, m.secrets)
	}
	return out
}

// mark sets a field under all names in use for it.
func (m *Message) mark(name string, f field) {
	for other := range m.fields {
		if fold(other) == fold(name) {
			m.fields[other] = f
		}
	}
	m.fields[name] = f
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

// Others are fields that are left out of records although nothing marks them as secret, and with them every Any. It does not change.
type Others struct {
	Field func(fd protoreflect.FieldDescriptor) bool
}

// Messages compiles message types, each once. The zero value is ready to use, and safe for
// concurrent use.
type Messages struct {
	// Others, where set, returns those of the time. Set it before the first use.
	Others func() *Others

	mu   sync.Mutex
	of   *Others // of which made is
	made map[protoreflect.MessageDescriptor]*Message
}

// Of returns what is secret in a message type, nil if nothing is.
func (m *Messages) Of(md protoreflect.MessageDescriptor) *Message {
	if md == nil {
		return nil
	}
	var others *Others
	if m.Others != nil {
		others = m.Others()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.made[md]; ok && m.of == others {
		return found
	}
	if m.made == nil || len(m.made) >= maxMessages || m.of != others {
		m.made, m.of = map[protoreflect.MessageDescriptor]*Message{}, others
	}
	made := compile(md, others)
	m.made[md] = made
	return made
}

// compile walks the types that a message can hold, each once.
func compile(md protoreflect.MessageDescriptor, others *Others) *Message {
	c := compiler{all: map[protoreflect.FullName]*Message{}, secrets: Names{}, others: others}
	root := c.walk(md)
	if len(c.secrets) == 0 && !root.isWhole {
		return nil
	}
	root.secrets = c.secrets
	return root
}

// compiler is one walk through types.
type compiler struct {
	all     map[protoreflect.FullName]*Message
	secrets Names
	others  *Others
}

func (c compiler) walk(md protoreflect.MessageDescriptor) *Message {
	if made, ok := c.all[md.FullName()]; ok {
		return made
	}
	out := &Message{fields: map[string]field{}}
	c.all[md.FullName()] = out
	if c.holdsOthers(md) {
		out.isWhole = true
		return out
	}
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		f := field{isSecret: IsSecret(fd) || c.others != nil && c.others.Field(fd)}
		switch {
		case f.isSecret || c.holdsOthers(fd.Message()):
			f.isSecret = true
			c.secrets.add(string(fd.Name()), fd.JSONName())
		case fd.IsMap() && fd.MapValue().Message() != nil:
			f.message, f.isMap = c.walk(fd.MapValue().Message()), true
		case fd.Message() != nil && !fd.IsMap():
			f.message = c.walk(fd.Message())
		default:
			continue
		}
		out.fields[string(fd.Name())], out.fields[fd.JSONName()] = f, f
	}
	return out
}

// holdsOthers reports whether a message may hold any field that is left out, of types that are not known here: an Any.
func (c compiler) holdsOthers(md protoreflect.MessageDescriptor) bool {
	return c.others != nil && md != nil && md.FullName() == "google.protobuf.Any"
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
// be read counts as secret. The last one counts, and the one before where there is none: an
// option that is set in parts arrives in parts.
func marksSecret(raw []byte) (secret bool) {
	isRead := eachField(raw, func(num protowire.Number, kind protowire.Type, value []byte) bool {
		if num != secretOption || kind != protowire.BytesType {
			return true
		}
		body, _ := protowire.ConsumeBytes(value)
		return eachField(body, func(num protowire.Number, kind protowire.Type, value []byte) bool {
			if num == secretMember && kind == protowire.VarintType {
				v, _ := protowire.ConsumeVarint(value)
				secret = v != 0
			}
			return true
		})
	})
	return secret || !isRead
}

// unknownClass is the class of a field whose options cannot be read. No policy names it.
const unknownClass = "?"

// ClassOf returns the class of a field, (outrigger.v1.field).visible_to; empty for none. It reads the options as [IsSecret] does.
func ClassOf(fd protoreflect.FieldDescriptor) string {
	options, ok := fd.Options().(*descriptorpb.FieldOptions)
	if !ok || options == nil {
		return ""
	}
	raw, err := proto.Marshal(options)
	if err != nil {
		return unknownClass
	}
	class := ""
	isRead := eachField(raw, func(num protowire.Number, kind protowire.Type, value []byte) bool {
		if num != secretOption || kind != protowire.BytesType {
			return true
		}
		body, _ := protowire.ConsumeBytes(value)
		return eachField(body, func(num protowire.Number, kind protowire.Type, value []byte) bool {
			if num == classMember && kind == protowire.BytesType {
				text, _ := protowire.ConsumeBytes(value)
				class = string(text)
			}
			return true
		})
	})
	if !isRead {
		return unknownClass
	}
	return class
}

// eachField visits the fields of a message, and returns false once one cannot be read or visit returns false.
func eachField(raw []byte, visit func(protowire.Number, protowire.Type, []byte) bool) bool {
	for len(raw) > 0 {
		num, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(num, kind, raw[n:])
		if size < 0 || !visit(num, kind, raw[n:n+size]) {
			return false
		}
		raw = raw[n+size:]
	}
	return true
}

// DefaultNames returns the names of members whose values are secret wherever they
// appear. Each name covers all its spellings.
func DefaultNames() []string {
	return []string{
		"password", "passwd", "pwd", "passphrase", "passcode", "pin",
		"secret", "client_secret", "shared_secret", "secret_key", "signing_key", "encryption_key", "private_key",
		"token", "access_token", "refresh_token", "id_token", "auth_token", "bearer_token", "session_token", "csrf_token",
		"api_key", "x_api_key", "access_key", "secret_access_key", "account_key", "api_token",
		"authorization", "proxy_authorization", "cookie", "set_cookie", "session_id",
		"credential", "credentials", "auth", "otp", "signature",
	}
}

// Names is a set of names of members whose values are secret. Each is a whole name and
// covers all spellings: api_key also means apiKey and API-Key.
type Names map[string]struct{}

// NewNames returns the set of the names in a list.
func NewNames(list []string) Names {
	set := make(Names, len(list))
	for _, name := range list {
		if name = fold(name); name != "" {
			set[name] = struct{}{}
		}
	}
	return set
}

func (n Names) add(names ...string) {
	for _, name := range names {
		n[fold(name)] = struct{}{}
	}
}

// has reports whether a decoded name is in the set, in any spelling.
func (n Names) has(name []byte) bool {
	var room [64]byte
	folded := room[:0]
	for _, c := range name {
		switch {
		case c >= utf8.RuneSelf:
			_, ok := n[fold(string(name))]
			return ok
		case c >= 'A' && c <= 'Z':
			folded = append(folded, c+'a'-'A')
		case !isSeparator(rune(c)):
			folded = append(folded, c)
		}
	}
	_, ok := n[string(folded)]
	return ok
}

// fold takes away what spellings of one name differ in: letter case and
// separators. Upper case comes first, because some letters share it only (the
// long s, the Kelvin sign).
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if isSeparator(r) {
			return -1
		}
		return r
	}, strings.ToLower(strings.ToUpper(name)))
}

func isSeparator(r rune) bool { return r == '_' || r == '-' || r == '.' || r == ' ' }

// maxMessageDepth bounds the recursion along a message type. Protobuf parsers stop at 100
// nested messages; what is deeper is left out as a whole.
const maxMessageDepth = 256

// AppendMessage is AppendPayload for the JSON form of a message: its secret fields are
// redacted by where they are, and other members by their names.
func (r Redactor) AppendMessage(dst, raw []byte, size, limit int, m *Message) []byte {
	if m == nil || size == 0 || size > limit || !isJSON(raw) {
		return r.AppendPayload(dst, raw, size, limit)
	}
	w := walker{names: r}
	w.In, w.Pos, w.Out = raw, jsontext.SkipSpace(raw, 0), dst
	w.value(field{message: m}, 0)
	return w.Out
}

// walker copies one valid JSON text along a message type.
type walker struct {
	jsontext.Rewriter
	names Redactor
}

// value copies the value of a field. Members that the type does not have go on with the same type: nothing that a message may
// hold is left out of sight.
func (w *walker) value(f field, depth int) {
	switch {
	case depth > maxMessageDepth, f.message != nil && f.message.isWhole:
		w.redact()
	case w.Next() == '{':
		w.Members(func(quoted []byte) ([]byte, func()) {
			return quoted, func() { w.member(decoded(quoted), f, depth) }
		})
	case w.Next() == '[':
		w.Items(func(int) { w.value(f, depth+1) })
	default:
		start := w.Pos
		w.Skip()
		w.Out, _ = w.names.append(w.Out, w.In[start:w.Pos], 0)
	}
}

// redact is in place of a value.
func (w *walker) redact() {
	w.Out = append(w.Out, redacted...)
	w.Skip()
}

func (w *walker) member(name []byte, in field, depth int) {
	f := field{message: in.message}
	if !in.isMap && in.message != nil {
		if found, ok := in.message.fields[string(name)]; ok {
			f = found
		}
	}
	if f.isSecret || w.names.secret(name) {
		w.redact()
		return
	}
	w.value(f, depth+1)
}
