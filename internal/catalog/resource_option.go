// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/wire"
)

// readResourceOption reads what a method says of itself as a source of resources, from the bytes, as readMethodOptions
// does; nil where it says nothing.
func readResourceOption(md protoreflect.MethodDescriptor) (*outriggerv1.ResourceOptions, error) {
	raw, err := proto.Marshal(md.Options())
	if err != nil {
		return nil, fmt.Errorf("read options: %w", err)
	}
	var out *outriggerv1.ResourceOptions
	err = wire.EachField(raw, func(num protowire.Number, body []byte) error {
		if num != outriggerv1.E_Resource.TypeDescriptor().Number() {
			return nil
		}
		if out == nil {
			out = &outriggerv1.ResourceOptions{}
		}
		return proto.UnmarshalOptions{Merge: true, Resolver: (*protoregistry.Types)(nil)}.Unmarshal(body, out)
	})
	if err != nil {
		return nil, fmt.Errorf("read option (outrigger.v1.resource): %w", err)
	}
	return out, nil
}

// resource makes a source of resources of a tool's method, where its option or the overlay asks for that. What is wrong
// is a problem.
func (b *builder) resource(t *Tool, overlaid *outriggerv1.ResourceOptions) {
	problem := func(err error) {
		b.problems = append(b.problems, Problem{t.subject(), "option (outrigger.v1.resource) or overlay: " + err.Error()})
	}
	var o *outriggerv1.ResourceOptions
	if b.hasResourceOption {
		var err error
		if o, err = readResourceOption(t.Method.Descriptor); err != nil {
			problem(err)
			return
		}
	}
	if o = override(o, overlaid); o == nil {
		return
	}
	if err := b.contract.check(o); err != nil {
		problem(err)
		return
	}
	m, err := newResourceMethod(t, o)
	if err != nil {
		problem(err)
		return
	}
	// The rules of URIs in the contract are those that clients apply.
	if err := b.contract.check(&outriggerv1.Resource{Uri: m.template.sample(), Name: t.Name}); err != nil {
		problem(fmt.Errorf("uri_template: %q, which it can make: %w", shown.Clip(m.template.sample()), err))
		return
	}
	b.resources = append(b.resources, m)
}
