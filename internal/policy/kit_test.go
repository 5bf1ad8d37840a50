// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bank is a file with a field of every kind, and two services whose methods share
// messages.
const bank = `
name: "bank.proto" package: "bank.v1" syntax: "proto3"
dependency: "google/protobuf/timestamp.proto" dependency: "google/protobuf/duration.proto"
dependency: "google/protobuf/wrappers.proto" dependency: "google/protobuf/any.proto" dependency: "google/protobuf/struct.proto"
enum_type { name: "Speed" value { name: "SPEED_UNSPECIFIED" number: 0 } value { name: "SPEED_FAST" number: 2 } }
message_type { name: "Money"
  field { name: "currency" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "units" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL } }
message_type { name: "Transfer"
  field { name: "amount" number: 1 type: TYPE_MESSAGE type_name: ".bank.v1.Money" label: LABEL_OPTIONAL }
  field { name: "count" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "account" number: 3 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "speed" number: 4 type: TYPE_ENUM type_name: ".bank.v1.Speed" label: LABEL_OPTIONAL }
  field { name: "lines" number: 5 type: TYPE_MESSAGE type_name: ".bank.v1.Money" label: LABEL_REPEATED }
  field { name: "labels" number: 6 type: TYPE_MESSAGE type_name: ".bank.v1.Transfer.LabelsEntry" label: LABEL_REPEATED }
  field { name: "iban" number: 7 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "card" number: 8 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "at" number: 9 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL }
  field { name: "wait" number: 10 type: TYPE_MESSAGE type_name: ".google.protobuf.Duration" label: LABEL_OPTIONAL }
  field { name: "limit" number: 11 type: TYPE_MESSAGE type_name: ".google.protobuf.Int64Value" label: LABEL_OPTIONAL }
  field { name: "extra" number: 12 type: TYPE_MESSAGE type_name: ".google.protobuf.Any" label: LABEL_OPTIONAL }
  field { name: "free" number: 13 type: TYPE_MESSAGE type_name: ".google.protobuf.Struct" label: LABEL_OPTIONAL }
  field { name: "rate" number: 14 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "key" number: 15 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "dry_run" number: 16 type: TYPE_BOOL label: LABEL_OPTIONAL }
  oneof_decl { name: "to" }
  nested_type { name: "LabelsEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL } } }
service { name: "Bank"
  method { name: "Send" input_type: ".bank.v1.Transfer" output_type: ".bank.v1.Money" }
  method { name: "Simulate" input_type: ".bank.v1.Transfer" output_type: ".bank.v1.Money" options { idempotency_level: NO_SIDE_EFFECTS } }
  method { name: "Show" input_type: ".bank.v1.Money" output_type: ".bank.v1.Money" options { idempotency_level: NO_SIDE_EFFECTS } } }
`

// newBank returns the catalog of the bank. Each has its own descriptors.
func newBank(t testing.TB) *catalog.Catalog {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal([]byte(bank), file); err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	for _, linked := range []proto.Message{&timestamppb.Timestamp{}, &durationpb.Duration{}, &wrapperspb.BoolValue{}, &anypb.Any{}, &structpb.Struct{}} {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(linked.ProtoReflect().Descriptor().ParentFile()))
	}
	set.File = append(set.File, file)
	return build(t, set, "bank.v1.Bank")
}

func build(t testing.TB, set *descriptorpb.FileDescriptorSet, services ...string) *catalog.Catalog {
	t.Helper()
	loaded, err := source.NewDescriptors("test", set, services...).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cat, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

func lookup(t testing.TB, cat *catalog.Catalog, name string) *catalog.Tool {
	t.Helper()
	tool, ok := cat.Lookup(name)
	if !ok {
		t.Fatalf("there is no tool %s", name)
	}
	return tool
}

// wire are arguments in the text format as bytes.
func wire(t testing.TB, tool *catalog.Tool, text string) []byte {
	t.Helper()
	m := dynamicpb.NewMessage(tool.Method.Descriptor.Input())
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func compile(t testing.TB, list ...policy.Rule) *policy.Set {
	t.Helper()
	set, faults := policy.Compile(list, policy.Limits{})
	if len(faults) > 0 {
		t.Fatalf("faults: %v", faults)
	}
	return set
}

func allow(name, when string, tools ...string) policy.Rule {
	return policy.Rule{Name: name, Tools: tools, Effect: policy.Allow, When: when}
}

func deny(name, when string, tools ...string) policy.Rule {
	return policy.Rule{Name: name, Tools: tools, Effect: policy.Deny, When: when}
}

// somebody is a caller with everything that rules can know of one.
func somebody() *identity.Identity {
	return identity.NewIdentityOf(identity.Grant{Name: "https://issuer.example#u-1", Tools: []string{"*"}}, identity.Facts{
		Source: identity.SourceOAuth, Issuer: "https://issuer.example", Subject: "u-1", ClientID: "app",
		Groups: []string{"refunds", "support"}, Scopes: []string{"tools:write"},
		Claims: map[string]any{"department": "finance", "level": float64(3), "nested": map[string]any{"a": []any{"x"}}},
	})
}
