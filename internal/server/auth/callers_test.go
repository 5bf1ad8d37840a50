// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/server/auth"
)

// TestSubjectHeaderIsOneMode: in the others the header is not on the allow-list, and nowhere where it is off.
func TestSubjectHeaderIsOneMode(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]bool{"none": false, "header": true, "exchange": false, "signed": false} {
		c := config.Defaults(config.Serve)
		c.Backend.Identity.Mode = proto.String(mode)
		if got := strings.Contains(strings.Join(auth.InboundMetadata(c), " "), "x-outrigger-subject"); got != want {
			t.Errorf("%s: %v", mode, got)
		}
		c.Access.SubjectHeader = proto.String("off")
		if got := auth.SubjectHeader(c) + strings.Join(auth.InboundMetadata(c), " "); strings.Contains(got, "subject") || strings.Contains(got, "off") {
			t.Errorf("%s, off: %s", mode, got)
		}
	}
}
