// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

// translated is a file with what rivals' annotations say of its fields and enums, whose imports are linked.
func (l *linker) translated(file *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	if !l.readsRivals {
		return file
	}
	var imports []protoreflect.FileDescriptor
	for _, path := range file.GetDependency() {
		imports = append(imports, l.state[path].descriptor)
	}
	out, notes := schema.TranslateRivals(file, schema.RivalsIn(imports...))
	for _, note := range notes {
		l.warnings = append(l.warnings, source.Warning{Subject: shown.Clip(file.GetName()), Text: note})
	}
	return out
}

// rivals are those whose annotations the linked files define; none unless they are read.
func (l *linker) rivals(isRead bool) schema.Rivals {
	var out schema.Rivals
	if isRead {
		l.registry.RangeFiles(func(file protoreflect.FileDescriptor) bool {
			out |= schema.RivalsIn(file)
			return true
		})
	}
	return out
}

// warnUnlessRivals says that there is nothing to read where an operator expects it: with protomcp, every method would be a tool.
func (b *builder) warnUnlessRivals(isRead bool) {
	if isRead && b.world.rivals == 0 {
		b.warn("catalog", "rival-annotations is on, and the descriptors define no annotations of protomcp.v1, mcp.v1 or grpcmcpgateway.v1: "+
			"nothing is read, and no method is left out for want of one; add the files that define them to the descriptors")
	}
}

// rival is what the annotations of a rival say of a method. The zero value says nothing.
type rival struct {
	// options are theirs in our terms; nil for none.
	options *configv1.ToolOptions
	// mcpName is the name by which agents know the tool; empty for the derived one.
	mcpName string
}

// Bounds of their texts, those of our own options. A longer one is cut.
const (
	maxRivalTitle       = 1024
	maxRivalDescription = 65536
)

// rivalOf reads what a rival says of a method. Where protomcp.v1 is defined, a method with no annotation of any kind is hidden, as it is
// no tool there: its authors took that for granted.
func (b *builder) rivalOf(md protoreflect.MethodDescriptor, ours methodOptions) (rival, error) {
	if b.world.rivals == 0 {
		return rival{}, nil
	}
	said, err := schema.RivalToolOf(md, schema.RivalsOf(md.ParentFile()))
	if err != nil {
		return rival{}, err
	}
	out := rival{options: &configv1.ToolOptions{}}
	if said.Asks {
		out.options.Destructive = proto.Bool(true) // the gate has the user confirm such calls
	}
	if said.Of == 0 {
		if b.world.rivals&schema.RivalProtoMCP != 0 && proto.Size(ours.tool) == 0 {
			out.options.Hidden = proto.Bool(true)
		}
		if proto.Size(out.options) == 0 {
			return rival{}, nil
		}
		return out, nil
	}
	out.options.Title, _ = shown.CutBytes(said.Title, maxRivalTitle)
	out.options.Description, _ = shown.CutBytes(said.Description, maxRivalDescription)
	out.options.ReadOnly, out.options.Idempotent, out.options.OpenWorld = said.ReadOnly, said.Idempotent, said.OpenWorld
	out.options.Destructive = cmp.Or(said.Destructive, out.options.Destructive)
	if out.options.GetDestructive() {
		out.options.ReadOnly = nil // both cannot be true, and this is the safe one
	}
	for _, icon := range said.Icons {
		out.options.Icons = append(out.options.Icons, &outriggerv1.Icon{Src: icon.Src, MimeType: icon.MimeType, Sizes: icon.Sizes, Theme: icon.Theme})
	}
	if err := b.rules.checkOptions(&configv1.ToolOptions{Icons: out.options.GetIcons()}); err != nil {
		b.warn(methodName(md), "its icons are omitted: "+oneLine(err))
		out.options.Icons = nil
	}
	out.mcpName = b.rivalName(md, said)
	return out, nil
}

// rivalName is the name that a rival gives a tool. One that agents cannot call is omitted, with a warning.
func (b *builder) rivalName(md protoreflect.MethodDescriptor, said schema.RivalTool) string {
	name := said.Name
	if name == "" {
		switch said.Of {
		case schema.RivalProtoMCP:
			name = string(md.Parent().Name()) + "_" + string(md.Name())
		case schema.RivalGateway:
			name = string(md.Name())
		case schema.RivalMCP:
			name = rivalMCPName(md)
		}
	}
	if name == "" {
		return ""
	}
	name = said.Prefix + name
	if b.prefix != "" {
		name = strings.ReplaceAll(b.prefix, ".", "_") + "_" + name
	}
	// A dot is refused by model providers, and replaced as in names of ours.
	if name = strings.ReplaceAll(name, ".", "_"); !isMCPName(name) || len(name) > mcpNameLimit {
		b.warn(methodName(md), fmt.Sprintf("the name %q of its annotation is not used: want at most %d letters, digits, \"_\" and \"-\"", shown.Clip(name), mcpNameLimit))
		return ""
	}
	return name
}

// rivalMCPName is the name that mcp.v1 makes of a method: shop.v1.OrderDesk/GetOrder is order_desk-get_order_v1. Empty where the
// package says no version.
func rivalMCPName(md protoreflect.MethodDescriptor) string {
	version := string(md.ParentFile().Package().Name())
	if !versionSegment.MatchString(version) {
		return ""
	}
	return snakeCase(string(md.Parent().Name())) + "-" + snakeCase(string(md.Name())) + "_" + version
}

// below is what is declared, on top of what the rival says. What contradicts it there is let go.
func (r rival) below(declared *configv1.ToolOptions) *configv1.ToolOptions {
	if r.options == nil {
		return declared
	}
	if declared.GetDestructive() {
		r.options.ReadOnly = nil
	}
	if declared.GetReadOnly() {
		r.options.Destructive = nil
	}
	return override(r.options, declared)
}

// settleRivalNames gives tools the derived names again whose rival names others have too. A rival would leave out all but one.
func (b *builder) settleRivalNames() {
	if b.world.rivals == 0 {
		return
	}
	claims := map[string]int{}
	for _, t := range b.tools {
		if !t.Hidden {
			claims[t.MCPName]++
			if t.Name != t.MCPName {
				claims[t.Name]++
			}
		}
	}
	for _, t := range b.tools {
		if derived := MCPName(t.Name); !t.Hidden && !t.Native && t.MCPName != derived && claims[t.MCPName] > 1 {
			b.warn(t.Subject(), fmt.Sprintf("the name %q of its annotation is another tool's too; it is %s", t.MCPName, derived))
			t.MCPName = derived
		}
	}
}
