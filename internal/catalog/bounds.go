// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/fieldrules"
)

// MaxSchemaBytes returns the maximum size of a declared schema in bytes, the limit of outrigger.v1.RegisterToolRequest.
func MaxSchemaBytes() int { return contract().schema }

// bounds are those of the contract that this package keeps itself, read from its rules.
type bounds struct {
	schema, description int // of outrigger.v1.RegisterToolRequest
	options             func(field protoreflect.Name) fieldrules.Rules
	examples            func(field protoreflect.Name) fieldrules.Rules
}

var contract = sync.OnceValue(func() *bounds {
	registration := rulesOf(new(outriggerv1.RegisterToolRequest))
	return &bounds{
		schema:      registration("input_schema_json").MaxBytes,
		description: registration("description").MaxBytes,
		options:     rulesOf(new(configv1.ToolOptions)),
		examples:    rulesOf(new(outriggerv1.ToolExample)),
	}
})

// rulesOf returns the rules of the fields of a message by their names.
func rulesOf(m proto.Message) func(protoreflect.Name) fieldrules.Rules {
	rules := make(map[protoreflect.Name]fieldrules.Rules)
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		rules[fields.Get(i).Name()] = fieldrules.Read(fields.Get(i))
	}
	return func(field protoreflect.Name) fieldrules.Rules { return rules[field] }
}
