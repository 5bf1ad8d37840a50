// SPDX-License-Identifier: Apache-2.0

package corpus_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// TestProfilesAreAccepted: no client or provider that a profile is for refuses a schema of it, for all that is known of
// them. What a profile has to leave out of a message that is too large is the exception, which has a warning.
func TestProfilesAreAccepted(t *testing.T) {
	t.Parallel()
	set := sources.Linked()
	for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
		clients := report.ProfileClients(profile.String())
		refused, excused, checked := 0, 0, 0
		for _, md := range sample(set.Messages()) {
			opts := schema.Options{Profile: profile, Extensions: set.Types}
			input, err := schema.Derive(md, schema.Input, opts)
			if err != nil {
				t.Fatal(err)
			}
			output, err := schema.Derive(md, schema.Output, opts)
			if err != nil {
				t.Fatal(err)
			}
			found, err := report.CheckSchemas(input.Advertised, output.Advertised, clients...)
			if err != nil {
				t.Fatal(err)
			}
			checked++
			switch {
			case len(found) == 0:
			case strings.Contains(strings.Join(input.Warnings, " "), "is larger than all providers allow"):
				excused++
			default:
				if refused++; refused <= 20 {
					t.Errorf("profile %v: %s: %+v", profile, md.FullName(), found[0])
				}
			}
		}
		t.Logf("profile %v: %d messages for %d clients, %d refused, %d too large even so", profile, checked, len(clients), refused, excused)
	}
}
