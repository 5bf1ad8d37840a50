// SPDX-License-Identifier: Apache-2.0

package ratelimit_test

import (
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	ratelimitv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/ratelimit/v1"
)

// TestMessagesAreEnvoys: what the sidecar writes is what Envoy's messages read, and the other way round.
func TestMessagesAreEnvoys(t *testing.T) {
	t.Parallel()
	over := ratelimitv1.RateLimitResponse_OVER_LIMIT
	for _, tc := range []struct{ ours, theirs proto.Message }{
		{
			&ratelimitv1.RateLimitRequest{Domain: "d", HitsAddend: 7, Descriptors: []*ratelimitv1.RateLimitDescriptor{
				{Entries: []*ratelimitv1.RateLimitDescriptor_Entry{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}}, {},
			}},
			new(ratelimitv3.RateLimitRequest),
		},
		{
			&ratelimitv1.RateLimitResponse{OverallCode: over, Statuses: []*ratelimitv1.RateLimitResponse_DescriptorStatus{{
				Code: over, DurationUntilReset: durationpb.New(1500),
				CurrentLimit: &ratelimitv1.RateLimitResponse_RateLimit{RequestsPerUnit: 9, Unit: ratelimitv1.RateLimitResponse_RateLimit_WEEK},
			}, {}}},
			new(ratelimitv3.RateLimitResponse),
		},
	} {
		sameFields(t, tc.ours.ProtoReflect().Descriptor(), tc.theirs.ProtoReflect().Descriptor())
		back := tc.ours.ProtoReflect().New().Interface()
		copied(t, tc.ours, tc.theirs)
		copied(t, tc.theirs, back)
		if !proto.Equal(tc.ours, back) {
			t.Errorf("%v came back as %v, by way of %v", tc.ours, back, tc.theirs)
		}
	}
}

// copied reads into a message what another one writes..
func copied(t *testing.T, from, to proto.Message) {
	t.Helper()
	wire, err := proto.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(wire, to); err != nil {
		t.Fatal(err)
	}
}

// sameFields finds each field of ours among theirs.
func sameFields(t *testing.T, ours, theirs protoreflect.MessageDescriptor) {
	t.Helper()
	for i := range ours.Fields().Len() {
		a := ours.Fields().Get(i)
		b := theirs.Fields().ByName(a.Name())
		if b == nil || a.Number() != b.Number() || a.Kind() != b.Kind() || a.Cardinality() != b.Cardinality() {
			t.Errorf("%v is not %v", a, b)
			continue
		}
		switch {
		case a.Message() != nil:
			sameFields(t, a.Message(), b.Message())
		case a.Enum() != nil:
			sameValues(t, a.Enum().Values(), b.Enum().Values())
		}
	}
}

// sameValues compares all values: one that the sidecar does not know would be a number in its messages.
func sameValues(t *testing.T, ours, theirs protoreflect.EnumValueDescriptors) {
	t.Helper()
	if ours.Len() != theirs.Len() {
		t.Errorf("%d values of %d", ours.Len(), theirs.Len())
	}
	for i := range ours.Len() {
		a := ours.Get(i)
		if b := theirs.ByName(a.Name()); b == nil || a.Number() != b.Number() {
			t.Errorf("%v is not %v", a, b)
		}
	}
}
