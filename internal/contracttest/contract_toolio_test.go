// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"sync/atomic"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/contracttest"
)

// TestContractOfTheSchemaRegistry has the sentences about the schemas of tools.
func TestContractOfTheSchemaRegistry(t *testing.T) {
	t.Parallel()

	t.Run("LoadEnvelope and LoadToolIO give compiled schemas", func(t *testing.T) {
		t.Parallel()
		r := contracttest.Of(harbour(t, "length"))
		if e, err := r.LoadEnvelope(); err != nil || e == nil {
			t.Errorf("%v, %v", e, err)
		}
		tool := r.Load(t, "harbour.moor")
		for doc, validate := range map[string]func([]byte) error{`{"length":"long"}`: tool.ValidateInput, `{"berth":1}`: tool.ValidateOutput} {
			if validate([]byte(doc)) == nil {
				t.Errorf("%s is admitted", doc)
			}
		}
	})

	t.Run("schemas are cached for each fingerprint of a tool", func(t *testing.T) {
		t.Parallel()
		var current atomic.Pointer[catalog.Catalog]
		r := contracttest.New(current.Load, contracttest.Options{})
		current.Store(harbour(t, "length"))
		first := r.Load(t, "harbour.moor")
		current.Store(current.Load().Only(func(*catalog.Tool) bool { return true })) // another catalog, the same schemas
		again := r.Load(t, "harbour.moor")
		if again.Fingerprint != first.Fingerprint || again.Input != first.Input || again.Output != first.Output {
			t.Error("the schemas of one fingerprint were compiled twice")
		}
	})

	t.Run("schemas are dropped when the fingerprint changes", func(t *testing.T) {
		t.Parallel()
		var current atomic.Pointer[catalog.Catalog]
		r := contracttest.New(current.Load, contracttest.Options{})
		current.Store(harbour(t, "length"))
		first := r.Load(t, "harbour.moor")
		current.Store(harbour(t, "length", "beam"))
		second := r.Load(t, "harbour.moor")
		if second.Fingerprint == first.Fingerprint || second.Input == first.Input {
			t.Error("the schemas of the old fingerprint are still handed out")
		}
		if second.ValidateInput([]byte(`{"beam":1}`)) != nil || first.ValidateInput([]byte(`{"beam":1}`)) == nil {
			t.Error("they are not those of the new one")
		}
		current.Store(harbour(t, "length"))
		if third := r.Load(t, "harbour.moor"); third.Input == first.Input {
			t.Error("the schemas of the old fingerprint were kept")
		}
	})

	document := func(tool, input, output string) string {
		return `{"tool":` + tool + `,"input":` + input + `,"output":` + output + `}`
	}
	const input, output = `{"length":1}`, `{"berth":"A"}`
	for claim, docs := range map[string]map[string][]string{
		"tool in a recorded document equals the identifier that was asked for": {
			document(`"harbour.moor"`, input, output): nil,
			document(`"harbour_moor"`, input, output): {"/tool const"}, // the same tool, and not what was asked for
			document(`"harbour.tide"`, input, output): {"/tool const"},
			document(`null`, input, output):           {"/tool const"},
		},
		"input and output of a recorded document are objects": {
			document(`"harbour.moor"`, `[]`, output):          {"/input type"},
			document(`"harbour.moor"`, `null`, output):        {"/input type"},
			document(`"harbour.moor"`, `"{}"`, output):        {"/input type"},
			document(`"harbour.moor"`, input, `[{}]`):         {"/output type"},
			document(`"harbour.moor"`, input, `null`):         {"/output type"},
			`{"tool":"harbour.moor","input":` + input + `}`:   {"/output required"},
			`{"tool":"harbour.moor","output":` + output + `}`: {"/input required"},
		},
		"input and output of a recorded document are both validated": {
			document(`"harbour.moor"`, `{"length":"x"}`, `{"berth":7}`): {"/input/length format", "/output/berth type"},
			document(`"harbour.moor"`, `{"width":1}`, output):           {"/input/width additionalProperties"},
			document(`"harbour.moor"`, input, `{"berth":"A","pier":1}`): {"/output/pier additionalProperties"},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			r := contracttest.Of(harbour(t, "length"))
			for doc, want := range docs {
				checkViolations(t, r.Load(t, "harbour.moor").ValidateIO([]byte(doc)), "harbour.moor", want)
			}
		})
	}
}
