// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/descriptorpb"
)

// inMemory is a Source whose descriptors are linked into this process.
type inMemory struct{ loaded Loaded }

// NewDescriptors is a source that always brings the given set, and offers the named services, or all of the set's where
// none is named. The set must not be changed afterwards.
func NewDescriptors(name string, set *descriptorpb.FileDescriptorSet, services ...string) Source {
	return &inMemory{Loaded{Source: name, Files: set.GetFile(), Services: slices.Clip(services), Static: true}}
}

func (m *inMemory) Name() string { return m.loaded.Source }

func (m *inMemory) Load(ctx context.Context) (*Loaded, error) { return m.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional: one load is like the other.
func (m *inMemory) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	if err := ctx.Err(); err != nil || before != nil {
		return nil, err
	}
	loaded := m.loaded
	loaded.Revision = &Revision{}
	return &loaded, nil
}
