// SPDX-License-Identifier: Apache-2.0

package outrigger

import (
	"context"
	"encoding/json"
	"errors"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// Tool describes one tool.
type Tool struct {
	// Name is the canonical name ("shop.buy"), MCPName the name for MCP clients.
	Name, MCPName string
	Title         string
	// Description is the text that models read.
	Description string
	// InputSchema and OutputSchema are JSON Schema 2020-12. OutputSchema is empty if the
	// tool has none.
	InputSchema, OutputSchema json.RawMessage
	// Procedure is the RPC of the tool ("/shop.v1.Shop/Buy").
	Procedure string
	// Destructive means that the method is marked destructive; callers need trust to run
	// it.
	Destructive bool
}

// Source is a source of tools. Load loads everything anew. It may be called at any
// time, but not concurrently.
type Source = source.Source

// Loaded is the result of one load of a [Source]: descriptors, and which of their
// services become tools.
type Loaded = source.Loaded

// Conditional is a [Source] that recognizes an unchanged load before it decodes it. It
// sets Loaded.Revision, and gets it back with the next load. Nil without an error then
// means that nothing has changed.
type Conditional = source.Conditional

// Revision identifies one load of a [Conditional] source by its digest.
type Revision = source.Revision

// SourceError reports which source failed, at which step, and whether a retry can help.
type SourceError = source.Error

// SourceWarning is a defect of a source that does not prevent loading it.
type SourceWarning = source.Warning

// Services returns a source of services whose generated code is linked into this
// program, by full name ("shop.v1.Shop"). Generated code has no comments: tools have
// only their names as descriptions, unless options of the methods declare texts.
func Services(names ...string) Source { return linked(names) }

// linked are full names of services.
type linked []string

// Name implements [Source].
func (linked) Name() string { return "services of this program" }

// Load implements [Source].
func (l linked) Load(context.Context) (*Loaded, error) {
	out := &Loaded{Source: l.Name(), Services: l, Static: true}
	seen := map[string]bool{}
	for _, name := range l {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if _, ok := found.(protoreflect.ServiceDescriptor); !ok && err == nil {
			err = errors.New("not a service")
		}
		if err != nil {
			return nil, &source.Error{Source: l.Name(), Step: "find " + name, Permanent: true, Cause: err}
		}
		out.Files = appendFile(out.Files, seen, found.ParentFile())
	}
	return out, nil
}

// appendFile appends a file behind those that it imports, each once.
func appendFile(files []*descriptorpb.FileDescriptorProto, seen map[string]bool, file protoreflect.FileDescriptor) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return files
	}
	seen[file.Path()] = true
	for i := range file.Imports().Len() {
		files = appendFile(files, seen, file.Imports().Get(i).FileDescriptor)
	}
	return append(files, protodesc.ToFileDescriptorProto(file))
}

// Tools returns the available tools, sorted by name; none before the first load.
func (s *Sidecar) Tools() []Tool { return toolsOf(s.app.Live().Current()) }

func toolsOf(now *catalog.Catalog) []Tool {
	if now == nil {
		return nil
	}
	out := make([]Tool, 0, len(now.Tools()))
	for _, t := range now.Tools() {
		one := Tool{
			Name: t.Name, MCPName: t.MCPName, Title: t.Title, Description: t.Description,
			InputSchema: t.Input.Advertised(), Procedure: t.Method.Procedure, Destructive: t.Metadata.Destructive,
		}
		if t.HasOutput() {
			one.OutputSchema = t.Output.Advertised()
		}
		out = append(out, one)
	}
	return out
}

// CallTool calls a tool by its canonical or MCP name, with the same validation, gate
// and limits as a call from outside. arguments is a JSON object; nil is an empty one.
// It returns the data of the result as JSON, or for a result without data, such as a
// document, the outcome as a message outrigger.v1.ToolOutcome. The error is an [*errmap.Error] with a canonical Code
// (docs/errors.md). Before the first load it waits for the tools.
func (s *Sidecar) CallTool(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	answer := s.app.Call(ctx, "go", "CallTool", name, arguments, nil, content.Wanted{})
	if answer.Err != nil {
		return nil, answer.Err
	}
	return json.RawMessage(answer.JSON()), nil
}
