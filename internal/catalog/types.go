// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// Types resolves all messages, enums and extensions of a catalog by name: what an Any may hold, and which extensions a
// message has. It is a resolver for protojson and proto, and safe for concurrent use.
//
// It also finds messages that are linked into the binary, such as google.rpc's, and messages that [Live.Learn] has
// learned. A lookup never asks a server.
type Types struct {
	*dynamicpb.Types
	extensions *protoregistry.Types
	learned    *learned
	any        func() (*transcode.Message, error)
}

// FindMessageByName implements protoregistry.MessageTypeResolver.
func (t *Types) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	mt, err := t.Types.FindMessageByName(name)
	if err == nil {
		return mt, nil
	}
	if mt, err := protoregistry.GlobalTypes.FindMessageByName(name); err == nil {
		return mt, nil
	}
	if mt := t.learned.find(name); mt != nil {
		return mt, nil
	}
	return nil, err
}

// FindMessageByURL implements protoregistry.MessageTypeResolver.
func (t *Types) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return t.FindMessageByName(protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:]))
}

// AppendJSON appends the JSON of an Any to dst. Values of unknown types are written as bytes.
func (t *Types) AppendJSON(dst []byte, a *anypb.Any) ([]byte, error) {
	out, _, err := t.AppendJSONNoting(dst, a)
	return out, err
}

// Unknown returns the URLs of unknown types in an Any: its own, or those of nested Anys.
func (t *Types) Unknown(a *anypb.Any) []string {
	_, noted, _ := t.AppendJSONNoting(nil, a) // what has no JSON names no types
	return noted.Unknown
}

// AppendJSONNoting is AppendJSON that also returns what there is to say about the JSON.
func (t *Types) AppendJSONNoting(dst []byte, a *anypb.Any) (out []byte, noted transcode.Noted, err error) {
	m, err := t.any()
	if err != nil {
		return dst, noted, err
	}
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(a)
	if err != nil {
		return dst, noted, err
	}
	return m.ToJSONNoting(context.Background(), nil, dst, wire)
}

// Learned returns a resolver for the descriptors of learned types, which are not among the catalog's files.
func (t *Types) Learned() protodesc.Resolver { return t.learned }

// RangeExtensionsByMessage calls f for every extension of the message until f returns false, in no particular order.
func (t *Types) RangeExtensionsByMessage(message protoreflect.FullName, f func(protoreflect.ExtensionType) bool) {
	t.extensions.RangeExtensionsByMessage(message, f)
}

// newTypes collects the types of linked files. Two extensions with one number are a warning, and the first by path wins.
func newTypes(linked *linker) (*Types, []source.Warning) {
	t := &Types{Types: dynamicpb.NewTypes(linked.registry), extensions: &protoregistry.Types{}, learned: newLearned()}
	t.any = sync.OnceValues(func() (*transcode.Message, error) {
		return transcode.Compile((&anypb.Any{}).ProtoReflect().Descriptor(), transcode.Options{Resolver: t})
	})
	var warnings []source.Warning
	for _, path := range linked.paths() {
		if !linked.factsOf(path).extends {
			continue
		}
		eachExtension(linked.state[path].descriptor, func(xd protoreflect.ExtensionDescriptor) {
			if err := t.extensions.RegisterExtension(dynamicpb.NewExtensionType(xd)); err != nil {
				warnings = append(warnings, source.Warning{Subject: path, Text: fmt.Sprintf("extension %s is left out: %v", xd.FullName(), err)})
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
