// SPDX-License-Identifier: Apache-2.0

package offer_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/offer"
)

func TestNothingIsCountedBeforeThereIsACatalog(t *testing.T) {
	t.Parallel()
	got := offer.New(bridge.New(mcptest.Memory(t), nil, correlate.New(correlate.Options{}), bridge.Options{}), offer.Options{}).Describe(nil)
	if got.Tools != 0 || got.Resources != 0 || got.Prompts != 0 || got.Capabilities.GetTools() == nil || got.Capabilities.GetResources() != nil {
		t.Errorf("got %+v", got)
	}
}
