// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/annotation"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Bounds of a generated description, so that it stays a few lines whatever the descriptors hold.
const (
	maxNamedInputs  = 4
	maxNamedOutputs = 3
)

// annotated is the description that annotations of other tools have; empty for none. A summary alone is a title more than
// a description, so the inputs and outputs follow it.
func annotated(t *Tool, said annotation.Method) string {
	summary, text := strings.TrimSuffix(shown.OneSpaced(said.Summary), "."), strings.TrimSpace(shown.Clean(said.Description))
	switch {
	case summary == "":
		return text
	case text == "":
		return summary + ". " + exchanged(t, said)
	case strings.HasPrefix(strings.ToLower(text), strings.ToLower(summary)):
		return text
	}
	return summary + ".\n\n" + text
}

// exchanged says in two sentences what a method takes and what it returns.
func exchanged(t *Tool, said annotation.Method) string {
	return inputText(t.Method.Descriptor, said) + " " + outputText(t)
}

func inputText(md protoreflect.MethodDescriptor, said annotation.Method) string {
	in := md.Input()
	if md.IsStreamingClient() {
		return "Takes a stream of " + phrase(string(in.Name()), true) + " messages."
	}
	if fields := signed(in, said.Signatures); len(fields) > 0 {
		return "Takes " + listed(fields, maxNamedInputs) + "."
	}
	var required, others []string
	for i := range in.Fields().Len() {
		fd := in.Fields().Get(i)
		switch name := phrase(string(fd.Name()), false); {
		case schema.BehaviorOf(fd).Hides(schema.Input), isDeprecatedField(fd):
		case schema.IsRequired(fd):
			required = append(required, name)
		case isPaging(fd):
		default:
			others = append(others, name)
		}
	}
	switch {
	case len(required) > 0:
		return "Requires " + listed(required, maxNamedInputs) + "."
	case len(others) > 0:
		return "Takes " + listed(others, maxNamedInputs) + "."
	case in.Fields().Len() > 0:
		return "Requires no arguments."
	}
	return "Takes no arguments."
}

// signed are the fields of the first signature that names any, as far as the request has them.
func signed(in protoreflect.MessageDescriptor, signatures [][]string) []string {
	for _, names := range signatures {
		var out []string
		for _, path := range names {
			first, _, _ := strings.Cut(path, ".")
			if fd := in.Fields().ByName(protoreflect.Name(first)); fd != nil && !schema.BehaviorOf(fd).Hides(schema.Input) && !isPaging(fd) {
				out = append(out, phrase(strings.ReplaceAll(path, ".", "_"), false))
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// isPaging holds for what chooses a page of a list (AIP-158), and not what is in it.
func isPaging(fd protoreflect.FieldDescriptor) bool {
	return fd.Name() == "page_size" || fd.Name() == "page_token"
}

func isDeprecatedField(fd protoreflect.FieldDescriptor) bool {
	options, ok := fd.Options().(interface{ GetDeprecated() bool })
	return ok && options.GetDeprecated()
}

func outputText(t *Tool) string {
	md := t.Method.Descriptor
	out := md.Output()
	switch {
	case t.Operation != nil && t.Operation.Response != nil:
		return "Starts a long-running operation that ends with " + withArticle(phrase(string(t.Operation.Response.Name.Name()), false)) + "."
	case t.Operation != nil:
		return "Starts a long-running operation."
	case t.IsDocument():
		return "Returns a document."
	case md.IsStreamingServer():
		if isEnvelope(out.Name()) && out.Fields().Len() > 0 {
			return "Returns a stream, each message with " + listed(mainFields(out), maxNamedOutputs) + "."
		}
		return "Returns a stream of " + phrase(string(out.Name()), true) + " messages."
	}
	if text := wellKnownText(out.FullName()); text != "" {
		return "Returns " + text + "."
	}
	if out.Fields().Len() == 0 {
		return "Returns nothing."
	}
	if !isEnvelope(out.Name()) {
		return "Returns the " + phrase(string(out.Name()), false) + "."
	}
	return "Returns " + listed(mainFields(out), maxNamedOutputs) + "."
}

// isEnvelope reports whether a message exists for the sake of the RPC: its fields are what comes back.
func isEnvelope(name protoreflect.Name) bool {
	for _, suffix := range [...]string{"Response", "Reply", "Result", "Resp", "Res", "Out", "Output"} {
		if strings.HasSuffix(string(name), suffix) {
			return true
		}
	}
	return false
}

// mainFields are the fields of a response, without those that page through it where there are others.
func mainFields(out protoreflect.MessageDescriptor) []string {
	var main, paging []string
	for i := range out.Fields().Len() {
		fd := out.Fields().Get(i)
		switch name := phrase(string(fd.Name()), false); fd.Name() {
		case "next_page_token", "total_size":
			paging = append(paging, name)
		default:
			main = append(main, name)
		}
	}
	if len(main) == 0 {
		return paging
	}
	return main
}

// wellKnownText is what a type of Protobuf's own is to a reader; empty for other messages.
func wellKnownText(name protoreflect.FullName) string {
	if name.Parent() != "google.protobuf" {
		return ""
	}
	switch name.Name() {
	case "Empty":
		return "nothing"
	case "Timestamp":
		return "a timestamp"
	case "Duration":
		return "a duration"
	case "FieldMask":
		return "a field mask"
	case "Struct":
		return "a JSON object"
	case "Value":
		return "a JSON value"
	case "ListValue":
		return "a JSON array"
	case "Any":
		return "a message of any type"
	case "StringValue":
		return "a string"
	case "BytesValue":
		return "bytes"
	case "BoolValue":
		return "true or false"
	case "Int32Value", "Int64Value", "UInt32Value", "UInt64Value":
		return "an integer"
	case "FloatValue", "DoubleValue":
		return "a number"
	}
	return ""
}

// listed joins names: "a, b and c". Those above the limit are counted.
func listed(names []string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
