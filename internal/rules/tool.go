// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// tool is a tool, as rules see it.
type tool struct {
	opaque
	name, module, version, destructive, readOnly, tags ref.Val
}

func newTool(t *catalog.Tool, adapter types.Adapter) *tool {
	readOnly := t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly
	out := &tool{
		name: types.String(t.Name), module: types.String(t.Metadata.Module), version: types.String(t.Version),
		destructive: types.Bool(t.Metadata.Destructive), readOnly: types.Bool(readOnly),
		tags: types.NewStringList(adapter, t.Tags),
	}
	out.opaque = opaque{kind: types.NewObjectType(toolName), self: out}
	return out
}

// toolObject is the type of the variable tool.
func toolObject() *object {
	field := func(kind *types.Type, get func(t *tool) ref.Val) *types.FieldType {
		return getter(kind, func(t *tool) (ref.Val, error) { return get(t), nil })
	}
	return &object{fields: map[string]*types.FieldType{
		"name":        field(types.StringType, func(t *tool) ref.Val { return t.name }),
		"module":      field(types.StringType, func(t *tool) ref.Val { return t.module }),
		"version":     field(types.StringType, func(t *tool) ref.Val { return t.version }),
		"destructive": field(types.BoolType, func(t *tool) ref.Val { return t.destructive }),
		"read_only":   field(types.BoolType, func(t *tool) ref.Val { return t.readOnly }),
		"tags":        field(types.NewListType(types.StringType), func(t *tool) ref.Val { return t.tags }),
	}}
}
