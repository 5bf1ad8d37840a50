// SPDX-License-Identifier: Apache-2.0

package longrunning

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Names of google.longrunning, and the number of its method option in MethodOptions.
const (
	OperationMessage  = "google.longrunning.Operation"
	OperationsService = "google.longrunning.Operations"
	InfoOption        = "google.longrunning.operation_info"
	InfoField         = 1049
)

// Numbers of the fields of OperationInfo.
const (
	InfoResponseType = 1
	InfoMetadataType = 2
)

// Operation is a google.longrunning.Operation.
type Operation struct {
	// Name is what the server knows the operation by.
	Name string
	// Metadata is what the server says of its progress; nil if it says nothing.
	Metadata *anypb.Any
	// Done is set if the operation has ended: with Error, or else with Response, which may
	// be nil.
	Done     bool
	Error    *status.Status
	Response *anypb.Any
}

// Numbers of the fields of Operation.
const (
	fieldName     = 1
	fieldMetadata = 2
	fieldDone     = 3
	fieldError    = 4
	fieldResponse = 5
)

// Parse reads the wire bytes of an Operation. The result shares no memory with them.
func Parse(wire []byte) (*Operation, error) {
	op := &Operation{}
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return nil, fmt.Errorf("longrunning: read operation: %w", protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(number, kind, wire[n:])
		if size < 0 {
			return nil, fmt.Errorf("longrunning: read operation: %w", protowire.ParseError(size))
		}
		if err := op.field(number, kind, wire[n:n+size]); err != nil {
			return nil, err
		}
		wire = wire[n+size:]
	}
	return op, nil
}

// field takes the value of one field. Parts of a message that come apart are merged, and of a oneof the last one stays, as
// Protobuf has it.
func (op *Operation) field(number protowire.Number, kind protowire.Type, value []byte) error {
	if number == fieldDone && kind == protowire.VarintType {
		done, _ := protowire.ConsumeVarint(value)
		op.Done = done != 0
		return nil
	}
	if kind != protowire.BytesType {
		return nil
	}
	body, _ := protowire.ConsumeBytes(value)
	switch number {
	case fieldName:
		if op.Name = string(body); !utf8.ValidString(op.Name) {
			return errors.New("longrunning: the operation's name is not UTF-8")
		}
	case fieldMetadata:
		return merge(&op.Metadata, body)
	case fieldError:
		op.Response = nil
		return merge(&op.Error, body)
	case fieldResponse:
		op.Error = nil
		return merge(&op.Response, body)
	}
	return nil
}

// merge adds a part of a message to what is there of it.
func merge[T any, M interface {
	*T
	proto.Message
}](to *M, body []byte) error {
	if *to == nil {
		*to = new(T)
	}
	if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(body, *to); err != nil {
		return fmt.Errorf("longrunning: read operation: %w", err)
	}
	return nil
}
