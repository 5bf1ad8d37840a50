// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/record"
)

// A request that is recorded runs once, like any other.
func TestARecordedRequestRuns(t *testing.T) {
	t.Parallel()
	run, err := record.Open(record.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	b := dialect.New(fake(t, mcptest.Echo, bridge.Options{}).Bridge, dialect.Options{Record: run})
	in := inbound(t, 1, dialect.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo"}}`)
	in.Transport = "stdio"
	if got := decode(t, b.HandleMessage(t.Context(), in)); got.code() != "" || got.Result == nil {
		t.Errorf("got %+v", got)
	}
}
