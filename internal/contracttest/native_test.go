// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestAToolWithoutAnOutputSchema takes any output, and the input that was declared.
func TestAToolWithoutAnOutputSchema(t *testing.T) {
	t.Parallel()
	c, err := catalog.Build([]*source.Loaded{{Source: "native", Services: []string{}, Native: &source.Native{Tools: []*outriggerv1.Tool{{
		Name: "greet", InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object","required":["name"]}`)},
	}}}}}, catalog.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	io := contracttest.Of(c).Load(t, "greet")
	if err := io.ValidateOutput([]byte(`{"anything":[1]}`)); err != nil {
		t.Errorf("output: %v", err)
	}
	if io.ValidateInput([]byte(`{"name":"a"}`)) != nil || io.ValidateInput([]byte(`{}`)) == nil {
		t.Error("the declared input schema does not hold")
	}
}
