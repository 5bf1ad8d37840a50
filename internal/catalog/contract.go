// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// contractRules checks messages of the contract by the rules that their .proto files state. Compiling a message takes
// milliseconds, so that is left until there is something to check. The zero value is ready for use.
type contractRules struct {
	compiled map[protoreflect.FullName]*transcode.Message
}

// check finds everything that is wrong with a message; the text is on one line.
func (r *contractRules) check(m proto.Message) error {
	message, err := r.compile(m.ProtoReflect().Descriptor())
	if err != nil {
		return err
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	err = message.CheckWire(context.Background(), raw)
	var broken *transcode.InputError
	if !errors.As(err, &broken) {
		return err
	}
	var faults []string
	for _, v := range broken.Violations {
		faults = append(faults, strings.TrimPrefix(strings.TrimPrefix(v.Path, "/")+": "+v.Message, ": "))
	}
	return errors.New(shown.ClipList(faults))
}

func (r *contractRules) compile(md protoreflect.MessageDescriptor) (*transcode.Message, error) {
	if known := r.compiled[md.FullName()]; known != nil {
		return known, nil
	}
	message, err := transcode.Compile(md, transcode.Options{})
	if err != nil {
		return nil, fmt.Errorf("compile rules: %w", err)
	}
	if r.compiled == nil {
		r.compiled = map[protoreflect.FullName]*transcode.Message{}
	}
	r.compiled[md.FullName()] = message
	return message, nil
}
