// SPDX-License-Identifier: Apache-2.0

// Command connectclient is the client under test of Connect's conformance suite: the
// sidecar's own client of backends.
//
//	connectconformance --mode client ... -- connectclient -descriptors FILE
//
// It reads ClientCompatRequest messages from standard input, makes each call, and answers
// with ClientCompatResponse messages.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/conformance/connect"
)

// mostCalls bounds the calls under way.
const mostCalls = 8

func main() {
	descriptors := flag.String("descriptors", "", "`file` of the suite's descriptors")
	flag.Parse()
	if err := run(*descriptors, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "connectclient:", err)
		os.Exit(1)
	}
}

func run(descriptors string, in io.Reader, out io.Writer) error {
	s, err := openSchema(descriptors)
	if err != nil {
		return err
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	places := make(chan struct{}, mostCalls)
	var writing sync.Mutex
	reader := bufio.NewReader(in)
	for {
		raw, err := connect.ReadMessage(reader)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		req := s.message("ClientCompatRequest")
		if err := s.options().Unmarshal(raw, req); err != nil {
			return err
		}
		places <- struct{}{}
		calls.Go(func() {
			defer func() { <-places }()
			resp := s.message("ClientCompatResponse")
			resp.Set(s.field(resp, "test_name"), req.Get(s.field(req, "test_name")))
			result, err := s.call(req)
			if err != nil {
				failed := s.message("ClientErrorResult")
				failed.Set(s.field(failed, "message"), protoreflect.ValueOfString(err.Error()))
				resp.Set(s.field(resp, "error"), protoreflect.ValueOfMessage(failed))
			} else {
				resp.Set(s.field(resp, "response"), protoreflect.ValueOfMessage(result))
			}
			raw, err := proto.Marshal(resp)
			if err != nil {
				broken(err) // a message that this program made
			}
			writing.Lock()
			defer writing.Unlock()
			_ = connect.WriteMessage(out, raw) // the suite has left
		})
	}
}

// schema is the suite's Protobuf package, whose generated code is internal to it.
type schema struct {
	files *protoregistry.Files
	types *dynamicpb.Types
}

func openSchema(name string) (*schema, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(raw, set); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &schema{files: files, types: dynamicpb.NewTypes(files)}, nil
}

func (s *schema) options() proto.UnmarshalOptions { return proto.UnmarshalOptions{Resolver: s.types} }

// message is an empty message of the suite's package. All names are the program's own.
func (s *schema) message(name protoreflect.Name) *dynamicpb.Message {
	d, err := s.files.FindDescriptorByName(protoreflect.FullName("connectrpc.conformance.v1").Append(name))
	if err != nil {
		broken(err)
	}
	return dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor)) //nolint:forcetypeassert // see above
}

func (*schema) field(m protoreflect.Message, name protoreflect.Name) protoreflect.FieldDescriptor {
	f := m.Descriptor().Fields().ByName(name)
	if f == nil {
		broken(fmt.Errorf("%s has no field %s", m.Descriptor().FullName(), name))
	}
	return f
}

// broken ends the program, which does not fit the suite's package.
func broken(err error) {
	fmt.Fprintln(os.Stderr, "connectclient:", err)
	os.Exit(1)
}
