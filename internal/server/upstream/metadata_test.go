// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/internal/config"
)

// TestSubjectHeaderIsOneMode: in the others the header is not on the allow-list, and nowhere where it is off.
func TestSubjectHeaderIsOneMode(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]bool{"none": false, "header": true, "exchange": false, "signed": false} {
		c := config.Defaults(config.Serve)
		c.Backend.Identity.Mode = proto.String(mode)
		if got := strings.Contains(strings.Join(inboundMetadata(c), " "), "x-outrigger-subject"); got != want {
			t.Errorf("%s: %v", mode, got)
		}
		c.Access.SubjectHeader = proto.String("off")
		if got := SubjectHeader(c) + strings.Join(inboundMetadata(c), " "); strings.Contains(got, "subject") || strings.Contains(got, "off") {
			t.Errorf("%s, off: %s", mode, got)
		}
	}
}
