// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Rivals are the other MCP servers whose annotations a file can use. The zero value is none.
type Rivals uint8

// The servers, by the Protobuf packages of their annotations.
const (
	RivalProtoMCP Rivals = 1 << iota // protomcp.v1
	RivalMCP                         // mcp.v1, which was mcp in its first releases
	RivalGateway                     // grpcmcpgateway.v1
)

// Field numbers of their extensions. All are from the range that anyone may use, so that a number says nothing: an option is theirs
// only in a file that imports the definition of the rival's option of tools (rivalTools).
const (
	protoMCPTool        = 50001
	protoMCPService     = 50002
	protoMCPTemplate    = 50003
	protoMCPList        = 50004
	protoMCPElicitation = 50006
	protoMCPField       = 50009
	rivalMCPTool        = 51001
	rivalMCPElicitation = 51003
	rivalMCPField       = 51004
	rivalMCPEnum        = 51005
	rivalMCPEnumValue   = 51006
	gatewayTool         = 80084
	gatewayField        = 80085
	gatewayService      = 80086
)

// rivalTools are the options by which their definitions are known.
//
//nolint:gochecknoglobals // a table that is never changed
var rivalTools = [...]struct {
	of     Rivals
	name   protoreflect.FullName
	number protowire.Number
}{
	{RivalProtoMCP, "protomcp.v1.tool", protoMCPTool},
	{RivalMCP, "mcp.v1.tool", rivalMCPTool},
	{RivalMCP, "mcp.tool", rivalMCPTool},
	{RivalGateway, "grpcmcpgateway.v1.tool", gatewayTool},
}

// RivalsIn are those whose annotations a file can use that imports the given ones: those that they define, or import publicly.
func RivalsIn(imports ...protoreflect.FileDescriptor) Rivals {
	var out Rivals
	for _, file := range imports {
		if file == nil || file.IsPlaceholder() {
			continue
		}
		for _, tool := range rivalTools {
			if tool.name.Parent() != file.Package() {
				continue
			}
			x := file.Extensions().ByName(tool.name.Name())
			if x != nil && x.Number() == tool.number && x.Message() != nil && x.ContainingMessage().FullName() == "google.protobuf.MethodOptions" {
				out |= tool.of
			}
		}
		for i := range file.Imports().Len() {
			if on := file.Imports().Get(i); on.IsPublic {
				out |= RivalsIn(on.FileDescriptor)
			}
		}
	}
	return out
}

// RivalsOf is RivalsIn for the imports of a file.
func RivalsOf(file protoreflect.FileDescriptor) Rivals {
	var out Rivals
	for i := range file.Imports().Len() {
		out |= RivalsIn(file.Imports().Get(i).FileDescriptor)
	}
	return out
}

// RivalTool is what the annotations of a rival say of a method.
type RivalTool struct {
	// Of is the rival whose option of tools the method has; 0 for none.
	Of Rivals
	// Name is the declared name, and Prefix what the service declares to be before the names of its tools.
	Name, Prefix, Title, Description string
	// The hints are nil where nothing is said.
	ReadOnly, Destructive, Idempotent, OpenWorld *bool
	// Asks: the user has to agree before each call.
	Asks  bool
	Icons []RivalIcon
}

// RivalIcon is an icon of a tool. Theme is "light", "dark" or empty.
type RivalIcon struct {
	Src, MimeType, Theme string
	Sizes                []string
}

// rivalThemes are the values of mcp.v1.MCPIconTheme.
//
//nolint:gochecknoglobals // a list that is never changed
var rivalThemes = [...]string{"", "light", "dark"}

// RivalToolOf reads what the given rivals say of a method. Where there are several, the first that says something counts. The error is
// for an option that cannot be read.
func RivalToolOf(md protoreflect.MethodDescriptor, of Rivals) (RivalTool, error) {
	for _, one := range [...]struct {
		of   Rivals
		name string
		read func(protoreflect.MethodDescriptor) (RivalTool, bool)
	}{
		{RivalProtoMCP, "protomcp.v1", protoMCPToolOf},
		{RivalMCP, "mcp.v1", rivalMCPToolOf},
		{RivalGateway, "grpcmcpgateway.v1", gatewayToolOf},
	} {
		if of&one.of == 0 {
			continue
		}
		said, ok := one.read(md)
		if !ok {
			return RivalTool{}, fmt.Errorf("option (%s.tool) cannot be read", one.name)
		}
		if said.Of != 0 || said.Asks {
			return said, nil
		}
	}
	return RivalTool{}, nil
}

// joinedOption is the value of an option of a message type, whose parts may be apart. It reports whether the option is there.
func joinedOption(d protoreflect.Descriptor, number protowire.Number) (body []byte, isThere bool) {
	eachAnnotation(d, func(it item) {
		if it.number == number && it.typ == protowire.BytesType {
			body, isThere = append(body, it.bytes...), true
		}
	})
	return body, isThere
}

// readPrefix reads the prefix of a method's service, from the option with a number.
func (r *RivalTool) readPrefix(md protoreflect.MethodDescriptor, number protowire.Number) bool {
	body, _ := joinedOption(md.Parent(), number)
	return fields{1: &r.Prefix}.read(body)
}

func protoMCPToolOf(md protoreflect.MethodDescriptor) (out RivalTool, ok bool) {
	body, isTool := joinedOption(md, protoMCPTool)
	if !isTool {
		return out, true
	}
	ok = fields{
		1: &out.Name, 2: &out.Title, 3: &out.Description, 4: &out.ReadOnly, 5: &out.Idempotent, 6: &out.Destructive, 7: &out.OpenWorld,
	}.read(body)
	out.Of = RivalProtoMCP
	_, out.Asks = joinedOption(md, protoMCPElicitation)
	return out, out.readPrefix(md, protoMCPService) && ok
}

// RivalResource is what protomcp.v1 says of a method that reads or lists resources, in the words of our own option: the variables of the
// template are paths of fields. The zero value says nothing.
type RivalResource struct {
	URITemplate, MimeType string
	// Content is the field of the response with the contents, of a method that reads. Items is the list of one that lists, and Label the
	// field of an item with its name; empty where that is more than a field.
	Content, Items, Label string
}

// RivalResourceOf reads what the given rivals say of resources of a method. The error is for an option that cannot be read.
func RivalResourceOf(md protoreflect.MethodDescriptor, of Rivals) (out RivalResource, err error) {
	if of&RivalProtoMCP == 0 {
		return out, nil
	}
	number, name := protowire.Number(protoMCPTemplate), "resource_template"
	to := fields{1: &out.URITemplate, 5: &out.MimeType, 6: &out.Content}
	bindings := protowire.Number(2)
	body, isThere := joinedOption(md, number)
	if !isThere {
		number, name, bindings = protoMCPList, "resource_list", 3
		to = fields{1: &out.Items, 2: &out.URITemplate, 4: &out.Label, 6: &out.MimeType}
		if body, isThere = joinedOption(md, number); !isThere {
			return out, nil
		}
	}
	var paths []string
	isBound := true
	ok := each(body, func(it item) {
		if it.number == bindings && it.typ == protowire.BytesType {
			var placeholder, path string
			isBound = fields{1: &placeholder, 2: &path}.read(it.bytes) && isBound
			paths = append(paths, "{"+placeholder+"}", "{"+path+"}")
			return
		}
		it.store(to[it.number])
	})
	if !ok || !isBound {
		return RivalResource{}, fmt.Errorf("option (protomcp.v1.%s) cannot be read", name)
	}
	out.URITemplate = strings.NewReplacer(paths...).Replace(out.URITemplate)
	out.Label = mustacheField(out.Label)
	return out, nil
}

// mustacheField is the field that a Mustache template consists of; empty if it is anything else.
func mustacheField(template string) string {
	name, isOpen := strings.CutPrefix(strings.TrimSpace(template), "{{")
	name, isClosed := strings.CutSuffix(name, "}}")
	if !isOpen || !isClosed {
		return ""
	}
	if name = strings.TrimSpace(name); strings.ContainsAny(name, "{}&#^/!>= \t") {
		return ""
	}
	return name
}

func gatewayToolOf(md protoreflect.MethodDescriptor) (out RivalTool, ok bool) {
	body, isTool := joinedOption(md, gatewayTool)
	if !isTool {
		return out, true
	}
	ok = fields{
		1: &out.Name, 2: &out.Description, 4: &out.Title, 5: &out.ReadOnly, 6: &out.Destructive, 7: &out.Idempotent, 8: &out.OpenWorld,
	}.read(body)
	out.Of = RivalGateway
	return out, out.readPrefix(md, gatewayService) && ok
}

// rivalMCPRequired is MCPElicitation.required. Without it the call goes on where the user does not agree.
const rivalMCPRequired = 6

func rivalMCPToolOf(md protoreflect.MethodDescriptor) (out RivalTool, ok bool) {
	asks, _ := joinedOption(md, rivalMCPElicitation)
	isAsked := fields{rivalMCPRequired: &out.Asks}.read(asks)
	body, isTool := joinedOption(md, rivalMCPTool)
	if !isTool {
		return out, isAsked
	}
	to := fields{
		1: &out.Name, 2: &out.Description, 4: &out.ReadOnly, 5: &out.Destructive, 6: &out.Idempotent, 7: &out.OpenWorld, 8: &out.Title,
	}
	isIcons := true
	ok = each(body, func(it item) {
		if it.number == 9 && it.typ == protowire.BytesType {
			icon, isRead := readRivalIcon(it.bytes)
			isIcons = isIcons && isRead
			out.Icons = append(out.Icons, icon)
			return
		}
		it.store(to[it.number])
	})
	out.Of = RivalMCP
	return out, ok && isIcons && isAsked
}

func readRivalIcon(body []byte) (out RivalIcon, ok bool) {
	var theme *uint64
	ok = fields{1: &out.Src, 2: &out.MimeType, 3: &out.Sizes, 4: &theme}.read(body)
	if theme != nil && *theme < uint64(len(rivalThemes)) {
		out.Theme = rivalThemes[*theme]
	}
	return out, ok
}

// TranslateRivals returns the file with what rivals' annotations say of fields and enums in the words of annotations that are read
// anyway: google.api.field_behavior for fields that callers have no part in, else those of OpenAPI, which come first, so that what a file
// says in them itself wins. The file itself is not changed. The notes are for the operator.
func TranslateRivals(file *descriptorpb.FileDescriptorProto, of Rivals) (out *descriptorpb.FileDescriptorProto, notes []string) {
	if of == 0 {
		return file, nil
	}
	t := &translation{of: of}
	out = proto.CloneOf(file)
	for _, md := range out.GetMessageType() {
		t.message(md, out.GetPackage())
	}
	for _, ed := range out.GetEnumType() {
		t.enum(ed, strings.TrimPrefix(out.GetPackage()+"."+ed.GetName(), "."))
	}
	for _, x := range out.GetExtension() {
		t.field(x, out.GetPackage())
	}
	return out, t.notes
}

// translation writes what rivals say of the fields and enums of one file.
type translation struct {
	of    Rivals
	notes []string
}

func (t *translation) note(of, format string, args ...any) {
	t.notes = append(t.notes, of+": "+fmt.Sprintf(format, args...))
}

func (t *translation) message(md *descriptorpb.DescriptorProto, within string) {
	name := strings.TrimPrefix(within+"."+md.GetName(), ".")
	for _, fd := range slices.Concat(md.GetField(), md.GetExtension()) {
		t.field(fd, name)
	}
	for _, ed := range md.GetEnumType() {
		t.enum(ed, name+"."+ed.GetName())
	}
	for _, nested := range md.GetNestedType() { // as deep as messages nest, which the parser of descriptors bounds
		t.message(nested, name)
	}
}

// optionOf is the value of an option in a message of options; isThere is false without it.
func optionOf(options proto.Message, number protowire.Number) (body []byte, isThere bool) {
	if options == nil || !options.ProtoReflect().IsValid() {
		return nil, false
	}
	raw, err := proto.MarshalOptions{AllowPartial: true}.Marshal(options)
	if err != nil {
		return nil, false
	}
	each(raw, func(it item) {
		if it.number == number && it.typ == protowire.BytesType {
			body, isThere = append(body, it.bytes...), true
		}
	})
	return body, isThere
}

// prepend puts fields before those of options that are not known by their types.
func prepend(options proto.Message, raw []byte) {
	m := options.ProtoReflect()
	m.SetUnknown(append(raw, m.GetUnknown()...))
}

// openAPIField writes an option of protoc-gen-openapiv2, whose numbers all are of one field in one message.
func openAPIField(body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, openAPINumber, protowire.BytesType), body)
}

// Fields of protoc-gen-openapiv2's JSONSchema; see keywords.fields.
const (
	openAPIDescription = 6
	openAPIExample     = 9
	openAPIRequired    = 26
	openAPIFormat      = 36
)

func appendString(dst []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, number, protowire.BytesType), text)
}

// rivalFormats are the values of mcp.v1.MCPFieldFormat.
//
//nolint:gochecknoglobals // a list that is never changed
var rivalFormats = [...]string{"", "date-time", "date", "time", "uri", "uuid", "email", "byte"}

func (t *translation) field(fd *descriptorpb.FieldDescriptorProto, within string) {
	if fd.GetOptions() == nil {
		return
	}
	name := within + "." + fd.GetName()
	var said []byte
	var isExcluded bool
	if body, isThere := optionOf(fd.GetOptions(), protoMCPField); isThere && t.of&RivalProtoMCP != 0 {
		var isRequired bool
		var kept []string
		if !(fields{1: &isExcluded, 2: &isRequired, 3: &kept}).read(body) {
			isExcluded = true // it may have said so
			t.note(name, "option (protomcp.v1.field_schema) cannot be read; the field is in no input and no result")
		}
		if isRequired && !isExcluded {
			said = appendString(said, openAPIRequired, fd.GetName())
		}
		if len(kept) > 0 {
			t.note(name, "(protomcp.v1.field_schema).exclude_from_outputs is not read; hide the field from results with visible_to in the overlay")
		}
	}
	if body, isThere := optionOf(fd.GetOptions(), rivalMCPField); isThere && t.of&RivalMCP != 0 {
		said = append(said, t.rivalMCPField(fd, name, body)...)
	}
	if body, isThere := optionOf(fd.GetOptions(), gatewayField); isThere && t.of&RivalGateway != 0 {
		var description string
		if !(fields{1: &description}).read(body) {
			t.note(name, "option (grpcmcpgateway.v1.field) ignored: its bytes cannot be read")
		}
		said = appendString(said, openAPIDescription, description)
	}
	var raw []byte
	if isExcluded {
		for _, behavior := range [...]uint64{behaviorOutputOnly, behaviorInputOnly} {
			raw = protowire.AppendVarint(protowire.AppendTag(raw, fieldBehaviorNumber, protowire.VarintType), behavior)
		}
	}
	if len(said) > 0 {
		raw = append(raw, openAPIField(said)...)
	}
	if len(raw) > 0 {
		prepend(fd.GetOptions(), raw)
	}
}

// rivalMCPField writes what mcp.v1.MCPFieldOptions say.
func (t *translation) rivalMCPField(fd *descriptorpb.FieldDescriptorProto, name string, body []byte) (said []byte) {
	var description string
	var examples []string
	var isDeprecated bool
	var format *uint64
	if !(fields{1: &description, 2: &examples, 3: &isDeprecated, 4: &format}).read(body) {
		t.note(name, "option (mcp.v1.field) ignored: its bytes cannot be read")
		return nil
	}
	said = appendString(said, openAPIDescription, description)
	for _, example := range examples {
		said = appendString(said, openAPIExample, example)
	}
	if format != nil && *format < uint64(len(rivalFormats)) {
		said = appendString(said, openAPIFormat, rivalFormats[*format])
	}
	if isDeprecated {
		fd.Options.Deprecated = &isDeprecated
	}
	return said
}

// openAPIEnumDescription is the description in protoc-gen-openapiv2's EnumSchema.
const openAPIEnumDescription = 1

// enum writes the descriptions that mcp.v1 has for an enum and its values, as the description of the enum.
func (t *translation) enum(ed *descriptorpb.EnumDescriptorProto, name string) {
	if t.of&RivalMCP == 0 {
		return
	}
	var lines []string
	take := func(options proto.Message, number protowire.Number, what, label string) {
		body, isThere := optionOf(options, number)
		var text string
		if isThere && !(fields{1: &text}).read(body) {
			t.note(name, "option (%s) ignored: its bytes cannot be read", what)
			return
		}
		if text = strings.TrimSpace(text); text != "" {
			lines = append(lines, label+text)
		}
	}
	take(ed.GetOptions(), rivalMCPEnum, "mcp.v1.enum", "")
	for _, v := range ed.GetValue() {
		take(v.GetOptions(), rivalMCPEnumValue, "mcp.v1.enum_value", v.GetName()+": ")
	}
	if len(lines) == 0 {
		return
	}
	if ed.Options == nil {
		ed.Options = &descriptorpb.EnumOptions{}
	}
	prepend(ed.GetOptions(), openAPIField(appendString(nil, openAPIEnumDescription, strings.Join(lines, " "))))
}
