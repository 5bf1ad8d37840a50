// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/wire"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// ReadOption reads a method's resource option from the raw bytes, because descriptors built at run time hold extensions
// as unknown fields. It returns nil if the method has no such option.
func ReadOption(md protoreflect.MethodDescriptor) (*configv1.ResourceOptions, error) {
	raw, err := proto.Marshal(md.Options())
	if err != nil {
		return nil, fmt.Errorf("read options: %w", err)
	}
	var out *configv1.ResourceOptions
	err = wire.EachField(raw, func(num protowire.Number, body []byte) error {
		if num != optionsv1.E_Resource.TypeDescriptor().Number() {
			return nil
		}
		if out == nil {
			out = &configv1.ResourceOptions{}
		}
		return proto.UnmarshalOptions{Merge: true, Resolver: (*protoregistry.Types)(nil)}.Unmarshal(body, out)
	})
	if err != nil {
		return nil, fmt.Errorf("read option (outrigger.v1.resource): %w", err)
	}
	return out, nil
}
