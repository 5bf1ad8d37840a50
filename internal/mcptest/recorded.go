// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"context"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/backend/recorded"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
)

// Recorded is a rig whose backend answers from the recording in a directory, as match says, or invents answers where dir is empty.
func Recorded(t testing.TB, dir, match string, parts Parts) *Rig {
	t.Helper()
	var cat *catalog.Catalog
	o := recorded.Options{Match: recorded.Match(match), Invents: dir == "", Seed: 1, Catalog: func() *catalog.Catalog { return cat }}
	if dir != "" {
		var err error
		if o.Recording, err = recorded.Open(dir); err != nil {
			t.Fatal(err)
		}
	}
	from := recorded.New(o)
	t.Cleanup(func() {
		if err := from.Close(); err != nil {
			t.Error(err)
		}
	})
	parts.Backend = from
	rig := Pipe(t, parts)
	cat = rig.Live.Current()
	return rig
}

// AsMember is the context of a caller of the callers file who is in a group.
func AsMember(t testing.TB, g identity.Grant, group string) context.Context {
	t.Helper()
	return identity.NewContext(t.Context(), identity.NewIdentityOf(g, identity.Facts{Source: identity.SourceTokens, Entry: true, Groups: []string{group}}))
}
