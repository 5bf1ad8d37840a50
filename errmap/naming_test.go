// SPDX-License-Identifier: Apache-2.0

package errmap_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// An error that several calls share is not written to when one of them names its tool.
func TestNamingLeavesTheErrorAsItIs(t *testing.T) {
	t.Parallel()
	shared := errmap.New(errmap.Unavailable, errmap.Message("busy"))
	named := shared.Naming("shop.get")
	if shared.Tool != "" {
		t.Errorf("the error names %q now", shared.Tool)
	}
	if named.Tool != "shop.get" || named.Code != errmap.Unavailable || named.Message != "busy" {
		t.Errorf("got %+v", named)
	}
}
