// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"

	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/bridge/catalog/source"
)

// The names that sources of descriptors had here.
type (
	Source            = source.Source
	Loaded            = source.Loaded
	Warning           = source.Warning
	SourceError       = source.SourceError
	Native            = source.Native
	Endpoint          = source.Endpoint
	Reflection        = source.Reflection
	ReflectionOptions = source.ReflectionOptions
)

// ErrNoServices is source.ErrNoServices.
var ErrNoServices = source.ErrNoServices

// NewDescriptors is source.NewDescriptors.
func NewDescriptors(name string, set *descriptorpb.FileDescriptorSet, services ...string) Source {
	return source.NewDescriptors(name, set, services...)
}

// NewDescriptorFile is source.NewDescriptorFile.
func NewDescriptorFile(path string, l source.Limits) Source { return source.NewDescriptorFile(path, l) }

// NewNative is source.NewNative.
func NewNative(name string, load func(ctx context.Context) (*Native, error)) Source {
	return source.NewNative(name, load)
}

// NewReflection is source.NewReflection.
func NewReflection(target string, dial source.Dial, o ReflectionOptions) Reflection {
	return source.NewReflection(target, dial, o)
}
