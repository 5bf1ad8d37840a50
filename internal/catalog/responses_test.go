// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestToolsShowResponses: examples of an RPC's responses are in the advertised output schema of its tool, in lists too,
// and neither in the fingerprint nor in the tools of other RPCs with the message.
func TestToolsShowResponses(t *testing.T) {
	t.Parallel()
	const shown = `"examples":[{"allowed":true,"resolution":"own"}]`
	files := withoutComments(relationsFiles(t))
	api := files[len(files)-1]
	check := api.GetService()[0].GetMethod()[0]
	again := &descriptorpb.MethodDescriptorProto{Name: new("CheckAgain"), InputType: check.InputType, OutputType: check.OutputType}
	api.GetService()[0].Method = append(api.GetService()[0].GetMethod(), again)

	first, keep, err := build([]*source.Loaded{filesOf(files...)}, BuildOptions{Listed: ListForm{Outputs: BoundedOutputSchemas}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := build([]*source.Loaded{filesOf(files...)}, BuildOptions{Listed: ListForm{Outputs: BoundedOutputSchemas}}, keep)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*Catalog{"built": first, "built again": second} {
		with, without := toolOf(t, c, "relations.check"), toolOf(t, c, "relations.check_again")
		for form, text := range map[string]json.RawMessage{
			"alone": with.Output.Advertised(), "listed": c.ListForm().Output(with), "shared": with.Output.Shared(),
		} {
			if !bytes.Contains(text, []byte(shown)) {
				t.Errorf("%s: %s is %s", name, form, text)
			}
		}
		if bytes.Contains(without.Output.Advertised(), []byte(shown)) {
			t.Errorf("%s: another RPC with the message shows it: %s", name, without.Output.Advertised())
		}
		if with.Fingerprint() != without.Fingerprint() {
			t.Errorf("%s: the example is in the fingerprint", name)
		}
		if with.Output.Digest() == without.Output.Digest() || with.IsSame(without) {
			t.Errorf("%s: the tools look the same", name)
		}
	}
	strict := toolOf(t, mustBuild(t, BuildOptions{Profile: schema.ProfileStrict}, filesOf(files...)), "relations.check")
	if bytes.Contains(strict.Output.Advertised(), []byte(`"examples"`)) {
		t.Errorf("the strict schema is %s", strict.Output.Advertised())
	}
}
