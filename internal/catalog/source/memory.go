// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/descriptorpb"
)

// inMemory is a Source whose descriptors are linked into this process.
type inMemory struct{ loaded Loaded }

// NewDescriptors returns a source that always provides the given set. It offers the named services, or all services of
// the set if none is named. Do not modify the set afterwards.
func NewDescriptors(name string, set *descriptorpb.FileDescriptorSet, services ...string) Source {
	return &inMemory{Loaded{Source: name, Files: set.GetFile(), Services: slices.Clip(services), Static: true}}
}

func (m *inMemory) Name() string { return m.loaded.Source }

func (m *inMemory) Load(ctx context.Context) (*Loaded, error) { return m.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional: all loads are the same.
func (m *inMemory) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	if err := ctx.Err(); err != nil || before != nil {
		return nil, err
	}
	loaded := m.loaded
	loaded.Revision = &Revision{}
	return &loaded, nil
}
