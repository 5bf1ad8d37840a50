// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Resolver finds the types that an Any names and, if it also lists them (see schema.Extensions), extensions. Concurrent
// calls use it. It may learn types at any time but must not forget one.
type Resolver interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
}

// Options configure New. The zero value is ready for use.
type Options struct {
	// Resolver is the catalog's registry of types. If it is nil, an Any may hold the types of the message's file and
	// its imports, and those linked into the binary.
	Resolver Resolver
	// MaxDepth (open objects and arrays), MaxNumberLength (bytes of one number) and MaxValues (values in the whole
	// document) bound a document. MaxViolations bounds the reported violations. Zero means the defaults of package schema.
	MaxDepth, MaxNumberLength, MaxValues, MaxViolations int
	// QuotedObjects also accepts an object, a map or a list of arbitrary values as a JSON string that contains it, and a map
	// as a list of entries, {"key": ..., "value": ...}. The strict profile of advertised schemas shows them that way.
	QuotedObjects bool
	// IsSecret, if set, reports fields of which an error shows no bytes. Errors name them all the same.
	IsSecret func(protoreflect.FieldDescriptor) bool
}

// maxWireDepth bounds the nesting of an answer. It is far above what people nest, and far below what a stack holds.
const maxWireDepth = 1000

func (o Options) bounds() schema.Bounds {
	return schema.Bounds{
		MaxDepth: o.MaxDepth, MaxNumberLength: o.MaxNumberLength, MaxValues: o.MaxValues, MaxViolations: o.limit(),
	}
}

// secret is IsSecret, or a function that marks none.
func (o Options) secret(fd protoreflect.FieldDescriptor) bool {
	return o.IsSecret != nil && o.IsSecret(fd)
}

func (o Options) limit() int {
	if o.MaxViolations > 0 {
		return o.MaxViolations
	}
	return schema.DefaultMaxViolations
}

// extensions are those that the resolver can list; what cannot be listed is not in the schema, and so not admitted.
func (o Options) extensions() schema.Extensions {
	e, _ := o.Resolver.(schema.Extensions)
	return e
}

// resolver hides the extensions that the schema does not know.
func (o Options) resolver(md protoreflect.MessageDescriptor) Resolver {
	r := o.Resolver
	if r == nil {
		r = ownTypes(md)
	}
	if o.extensions() != nil {
		return r
	}
	return withoutExtensions{r}
}

type withoutExtensions struct {
	protoregistry.MessageTypeResolver
}

func (withoutExtensions) FindExtensionByName(protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return nil, protoregistry.NotFound
}

func (withoutExtensions) FindExtensionByNumber(protoreflect.FullName, protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	return nil, protoregistry.NotFound
}

// ownTypes are the types of a message's file and of its imports, before those of the binary.
func ownTypes(md protoreflect.MessageDescriptor) Resolver {
	files := &protoregistry.Files{}
	var add func(protoreflect.FileDescriptor)
	add = func(fd protoreflect.FileDescriptor) {
		if fd == nil || fd.IsPlaceholder() {
			return
		}
		if _, err := files.FindFileByPath(fd.Path()); err == nil {
			return
		}
		// A file that clashes with another only costs its own types.
		_ = files.RegisterFile(fd)
		for i := range fd.Imports().Len() {
			add(fd.Imports().Get(i).FileDescriptor)
		}
	}
	add(md.ParentFile())
	return fallback{dynamicpb.NewTypes(files), protoregistry.GlobalTypes}
}

type fallback struct{ first, second Resolver }

func (f fallback) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	if t, err := f.first.FindMessageByName(name); err == nil {
		return t, nil
	}
	return f.second.FindMessageByName(name)
}

func (f fallback) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if t, err := f.first.FindMessageByURL(url); err == nil {
		return t, nil
	}
	return f.second.FindMessageByURL(url)
}

func (f fallback) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return f.first.FindExtensionByName(name)
}

func (f fallback) FindExtensionByNumber(name protoreflect.FullName, n protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	return f.first.FindExtensionByNumber(name, n)
}
