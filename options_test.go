// SPDX-License-Identifier: Apache-2.0

package outrigger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/outrigger-mcp/outrigger/internal/config"
)

// TestOptionsHaveNoDefaultOfTheirOwn: what an embedder leaves zero is what the command
// has by default, except for the listeners and the run records.
func TestOptionsHaveNoDefaultOfTheirOwn(t *testing.T) {
	t.Parallel()
	got, err := Options{Backend: "http://127.0.0.1:1"}.config()
	if err != nil {
		t.Fatal(err)
	}
	want := config.Defaults(config.Serve)
	want.Backend.Url = "http://127.0.0.1:1"
	off := "off"
	want.Record.Dir = &off
	want.Listeners.Listen, want.Listeners.Admin, want.Listeners.Health = &off, &off, &off
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
