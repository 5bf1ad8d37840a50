// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestARegisteredToolIsCheckedByItsOwnSchema looks up a tool whose schema was
// declared at registration and is narrower than its RPC's.
func TestARegisteredToolIsCheckedByItsOwnSchema(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{})
	_, err := rig.Live.Put(t.Context(), catalog.Registration{
		Name: "greet.echo", Description: "Return a short greeting.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"nonce":{"type":"string","maxLength":3}},"required":["nonce"],"additionalProperties":false}`),
		Binding:     catalog.Binding{Service: "outrigger.demo.v1.Lab", Method: "Echo"},
	})
	if err != nil {
		t.Fatal(err)
	}
	schemas := contracttest.New(rig.Live.Current, contracttest.Options{})
	tool, err := schemas.LoadToolIO("greet.echo")
	if err != nil {
		t.Fatal(err)
	}
	if err := tool.ValidateInput([]byte(`{"nonce":"abc"}`)); err != nil {
		t.Errorf("what the declared schema admits: %v", err)
	}
	var invalid *contracttest.InvalidError
	for _, input := range []string{`{"nonce":"abcd"}`, `{}`, `{"nonce":"abc","signed":"1"}`} {
		if err := tool.ValidateInput([]byte(input)); !errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want an *InvalidError", input, err)
		}
	}
}
