// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/wire"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// Override is one entry of the overlay: options for tools whose service cannot be changed.
type Override struct {
	// Match is a glob over methods and native tools, as in Selection. A native tool keeps its schemas and is never a source
	// of resources.
	Match string
	// Options override the method's own, member by member. A list replaces a list.
	Options *configv1.ToolOptions
	// InputSchema and OutputSchema are JSON Schemas to show instead of the derived ones. Arguments and results must
	// satisfy them as well. Nil keeps the derived ones. A schema fits one tool, so Match should name one method.
	InputSchema, OutputSchema json.RawMessage
	// Properties describe arguments, by their paths (schema.InputField). They take the place of comments and annotations, in
	// what is shown alone. A path has to lead to a field of at least one of the methods that match.
	Properties map[string]string
	// Resource makes the method a source of resources. Its members override those of the method's own option.
	Resource *configv1.ResourceOptions
}

// httpRuleField is the number of google.api.http among the method options; the numbers of its verbs follow.
const (
	httpRuleField = 72295728
	httpGet       = 2
	httpPut       = 3
	httpDelete    = 5
)

// methodOptions is what a method's own options say, read from their bytes: descriptors that were built at run time hold
// extensions as unknown fields, and those that are linked in as typed ones; their bytes are the same.
type methodOptions struct {
	tool        *configv1.ToolOptions
	idempotency Idempotency
	deprecated  bool
	// httpVerb is the field number of the verb in google.api.http, 0 where there is none.
	httpVerb protowire.Number
}

// readMethodOptions reads a method's options. The number of the tool option is from the range that anyone may use, so
// it is only taken for ours (hasOurs) where the descriptors define it under our name. What is ours and undecodable is
// an error, since it may have said that the tool is destructive.
func readMethodOptions(md protoreflect.MethodDescriptor, hasOurs bool) (methodOptions, error) {
	out := methodOptions{tool: &configv1.ToolOptions{}}
	options, ok := md.Options().(*descriptorpb.MethodOptions)
	if !ok || options == nil {
		return out, nil
	}
	out.deprecated = options.GetDeprecated() || isServiceDeprecated(md)
	switch options.GetIdempotencyLevel() {
	case descriptorpb.MethodOptions_NO_SIDE_EFFECTS:
		out.idempotency = NoSideEffects
	case descriptorpb.MethodOptions_IDEMPOTENT:
		out.idempotency = Idempotent
	case descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN:
	}
	raw, err := proto.Marshal(options)
	if err != nil {
		return out, fmt.Errorf("read options: %w", err)
	}
	toolField := optionsv1.E_Tool.TypeDescriptor().Number()
	err = wire.EachField(raw, func(num protowire.Number, body []byte) error {
		switch {
		case num == toolField && hasOurs:
			// An option that is set in parts arrives in parts.
			return proto.UnmarshalOptions{Merge: true, Resolver: (*protoregistry.Types)(nil)}.Unmarshal(body, out.tool)
		case num == httpRuleField:
			return wire.EachField(body, func(verb protowire.Number, _ []byte) error {
				if verb == httpGet || verb == httpPut || verb == httpDelete {
					out.httpVerb = verb
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("read option (outrigger.v1.tool): %w", err)
	}
	return out, nil
}

func isServiceDeprecated(md protoreflect.MethodDescriptor) bool {
	options, ok := md.Parent().Options().(*descriptorpb.ServiceOptions)
	return ok && options.GetDeprecated()
}

// definesOption reports whether the files define one of our method options under its name and number.
func definesOption(files *protoregistry.Files, option protoreflect.ExtensionType) bool {
	own := option.TypeDescriptor()
	d, err := files.FindDescriptorByName(own.FullName())
	if err != nil {
		return false
	}
	field, ok := d.(protoreflect.FieldDescriptor)
	return ok && field.IsExtension() && field.Number() == own.Number() &&
		field.ContainingMessage().FullName() == own.ContainingMessage().FullName()
}

// override is base with every member that over sets put in the place of its own; either may be nil.
func override[M proto.Message](base, over M) M {
	if !over.ProtoReflect().IsValid() {
		return base
	}
	if !base.ProtoReflect().IsValid() {
		return over
	}
	out := proto.CloneOf(base)
	proto.CloneOf(over).ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.ProtoReflect().Set(fd, v)
		return true
	})
	return out
}

// optionRules checks tool options by the rules that options.proto states. Compiling them takes milliseconds, so that is
// left until there is something to check.
type optionRules struct{ message *transcode.Message }

// check finds everything that is wrong with the options; the text is on one line.
func (r *optionRules) check(o *configv1.ToolOptions) error {
	broken, err := r.violations(o)
	if err != nil || len(broken) == 0 {
		return err
	}
	var faults []string
	for _, v := range broken {
		text := shown.Clip(v.Message)
		if path := strings.TrimPrefix(v.Path, "/"); path != "" {
			text = path + ": " + text
		}
		faults = append(faults, text)
	}
	return errors.New(strings.Join(faults, "; "))
}

// violations are the rules that the options break, with the paths of their fields.
func (r *optionRules) violations(o *configv1.ToolOptions) ([]schema.Violation, error) {
	if arePlain(o) {
		return nil, nil
	}
	raw, err := proto.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode options: %w", err)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	if r.message == nil {
		if r.message, err = transcode.Compile(o.ProtoReflect().Descriptor(), transcode.Options{}); err != nil {
			return nil, fmt.Errorf("compile rules: %w", err)
		}
	}
	err = r.message.CheckWire(context.Background(), raw)
	var broken *transcode.InputError
	if errors.As(err, &broken) {
		return broken.Violations, nil
	}
	return nil, err
}
