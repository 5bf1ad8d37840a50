// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// overlay is what the configuration says about single tools.
func overlay(cfg *configv1.Config) ([]catalog.Override, error) {
	var out []catalog.Override
	for i, t := range cfg.GetTools() {
		entry := catalog.Override{Match: t.GetMethod(), Options: t.GetTool(), Resource: t.GetResource(), Properties: t.GetProperties()}
		var err error
		if entry.InputSchema, err = schemaText(t.GetInputSchema()); err != nil {
			return nil, fmt.Errorf("tools[%d].input_schema: %w", i, err)
		}
		if entry.OutputSchema, err = schemaText(t.GetOutputSchema()); err != nil {
			return nil, fmt.Errorf("tools[%d].output_schema: %w", i, err)
		}
		out = append(out, entry)
	}
	return out, nil
}

// schemaText is the JSON of a schema out of the file; nil where there is none.
// The order of members is lost by then.
func schemaText(s *structpb.Struct) (json.RawMessage, error) {
	if s == nil {
		return nil, nil
	}
	return protojson.Marshal(s)
}

// checkSchemas asks the catalog about the schemas of the overlay, as far as they
// can be judged without knowing the RPC.
func checkSchemas(cfg *configv1.Config, report func(path, message string)) {
	for i, t := range cfg.GetTools() {
		for _, declared := range [...]struct {
			member string
			schema *structpb.Struct
		}{{"input_schema", t.GetInputSchema()}, {"output_schema", t.GetOutputSchema()}} {
			path := fmt.Sprintf("tools[%d].%s", i, declared.member)
			raw, err := schemaText(declared.schema)
			switch {
			case err != nil:
				report(path, "is not valid JSON: "+err.Error())
				continue
			case raw == nil:
				continue
			}
			for _, fault := range catalog.CheckSchema(raw) {
				message := fault.Message
				if fault.Path != "" {
					message = "at " + fault.Path + ": " + message
				}
				report(path, message)
			}
		}
	}
}
