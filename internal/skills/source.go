// SPDX-License-Identifier: Apache-2.0

package skills

import (
	"context"
	"sync/atomic"
)

// Source has the skills of some folders. Make one with [Open]. A nil Source has none.
type Source struct {
	folders []string
	limits  Limits
	current atomic.Pointer[Set]
}

// Open reads the skills in folders, as [Load] does.
func Open(folders []string, l Limits) (*Source, error) {
	set, err := Load(context.Background(), folders, l)
	if err != nil {
		return nil, err
	}
	s := &Source{folders: folders, limits: l}
	s.current.Store(set)
	return s, nil
}

// Current returns the skills in use.
func (s *Source) Current() *Set {
	if s == nil {
		return nil
	}
	return s.current.Load()
}

// Reload reads the folders again. It returns the URIs of the files that changed, and whether anything did. After an error,
// the skills in use stay.
func (s *Source) Reload(ctx context.Context) (changed []string, isNew bool, err error) {
	before := s.Current()
	now, err := Load(ctx, s.folders, s.limits)
	if err != nil || now.digest == before.digest {
		return nil, false, err
	}
	s.current.Store(now)
	return now.Changed(before), true, nil
}
