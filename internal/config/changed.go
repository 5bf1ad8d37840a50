// SPDX-License-Identifier: Apache-2.0

package config

import (
	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// changedOnly is a copy of a message of a type whose fields with default values have no rules, because to compile the
// rules of all fields takes most of the time of a start. A test validates the defaults.
func changedOnly(m, byDefault proto.Message) (proto.Message, error) {
	c := &changed{fields: make(map[protoreflect.FullName]bool), files: new(protoregistry.Files)}
	c.compare(m.ProtoReflect(), byDefault.ProtoReflect())
	md := m.ProtoReflect().Descriptor()
	if err := c.rewrite(md.ParentFile()); err != nil {
		return nil, err
	}
	found, err := c.files.FindDescriptorByName(md.FullName())
	if err != nil {
		return nil, err
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	rewritten, _ := found.(protoreflect.MessageDescriptor)
	out := dynamicpb.NewMessage(rewritten)
	return out, proto.Unmarshal(raw, out)
}

// changed has the fields whose rules are needed, and the files without the rules of the others. It resolves the imports of
// these files.
type changed struct {
	fields map[protoreflect.FullName]bool
	files  *protoregistry.Files
}

// compare finds the fields that differ from the default. Without a default, all fields do.
func (c *changed) compare(m, byDefault protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		if byDefault != nil && m.Has(fd) == byDefault.Has(fd) && m.Get(fd).Equal(byDefault.Get(fd)) {
			continue
		}
		c.fields[fd.FullName()] = true
		switch {
		case !m.Has(fd) || fd.Message() == nil:
		case fd.IsMap():
			for i := range fd.Message().Fields().Len() {
				c.fields[fd.Message().Fields().Get(i).FullName()] = true
			}
			m.Get(fd).Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				if fd.MapValue().Message() != nil {
					c.compare(v.Message(), nil)
				}
				return true
			})
		case fd.IsList():
			for i := range m.Get(fd).List().Len() {
				c.compare(m.Get(fd).List().Get(i).Message(), entryDefaults(fd))
			}
		case byDefault != nil && byDefault.Has(fd):
			c.compare(m.Get(fd).Message(), byDefault.Get(fd).Message())
		default:
			c.compare(m.Get(fd).Message(), nil)
		}
	}
}

// rewrite adds a file, and those of its package that it imports, without the rules that are not needed.
func (c *changed) rewrite(f protoreflect.FileDescriptor) error {
	if _, err := c.files.FindFileByPath(f.Path()); err == nil {
		return nil
	}
	for i := range f.Imports().Len() {
		if imported := f.Imports().Get(i); imported.Package() == f.Package() {
			if err := c.rewrite(imported.FileDescriptor); err != nil {
				return err
			}
		}
	}
	text := protodesc.ToFileDescriptorProto(f)
	ignored := &descriptorpb.FieldOptions{}
	proto.SetExtension(ignored, validate.E_Field, validate.FieldRules_builder{Ignore: validate.Ignore_IGNORE_ALWAYS.Enum()}.Build())
	for _, m := range text.GetMessageType() {
		for _, field := range m.GetField() {
			if !c.fields[f.Package().Append(protoreflect.Name(m.GetName())).Append(protoreflect.Name(field.GetName()))] {
				field.Options = ignored
			}
		}
	}
	built, err := protodesc.NewFile(text, c)
	if err != nil {
		return err
	}
	return c.files.RegisterFile(built)
}

// FindFileByPath implements [protodesc.Resolver].
func (c *changed) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if f, err := c.files.FindFileByPath(path); err == nil {
		return f, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName implements [protodesc.Resolver].
func (c *changed) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := c.files.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}
