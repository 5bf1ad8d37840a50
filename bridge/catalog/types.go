// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Types are all messages, enums and extensions of a catalog, by name: what an Any may hold, and which extensions a
// message has. It is a resolver for protojson and proto, and safe for concurrent use.
type Types struct {
	*dynamicpb.Types
	extensions *protoregistry.Types
}

// RangeExtensionsByMessage calls f with every extension of the message until f returns false, in no particular order.
func (t *Types) RangeExtensionsByMessage(message protoreflect.FullName, f func(protoreflect.ExtensionType) bool) {
	t.extensions.RangeExtensionsByMessage(message, f)
}

// newTypes collects the types of linked files. Two extensions with one number are a warning, and the first by path wins.
func newTypes(files *protoregistry.Files, paths []string) (*Types, []Warning) {
	t := &Types{Types: dynamicpb.NewTypes(files), extensions: &protoregistry.Types{}}
	var warnings []Warning
	for _, path := range paths {
		fd, err := files.FindFileByPath(path)
		if err != nil {
			continue // It did not link, which is a warning already.
		}
		eachExtension(fd, func(xd protoreflect.ExtensionDescriptor) {
			if err := t.extensions.RegisterExtension(dynamicpb.NewExtensionType(xd)); err != nil {
				warnings = append(warnings, Warning{path, fmt.Sprintf("extension %s is left out: %v", xd.FullName(), err)})
			}
		})
	}
	return t, warnings
}

// extensionScope is what may declare extensions: a file or a message.
type extensionScope interface {
	Extensions() protoreflect.ExtensionDescriptors
	Messages() protoreflect.MessageDescriptors
}

// eachExtension calls fn with all extensions that are declared in the scope and the messages within it.
func eachExtension(scope extensionScope, fn func(protoreflect.ExtensionDescriptor)) {
	for i := range scope.Extensions().Len() {
		fn(scope.Extensions().Get(i))
	}
	for i := range scope.Messages().Len() {
		eachExtension(scope.Messages().Get(i), fn)
	}
}
