// SPDX-License-Identifier: Apache-2.0

package sources_test

import (
	"testing"

	_ "google.golang.org/genproto/googleapis/api/annotations" // imported by .proto files
	_ "google.golang.org/genproto/googleapis/api/httpbody"
	_ "google.golang.org/genproto/googleapis/api/visibility"
	_ "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
)

func TestModules(t *testing.T) {
	t.Parallel()
	landmarks := map[string]protoreflect.FullName{
		"k8s.io/api":             "k8s.io.api.core.v1.PodSpec",
		"etcd":                   "etcdserverpb.RangeRequest",
		"grpc-gateway examples":  "grpc.gateway.examples.internal.proto.examplepb.ABitOfEverything",
		"protobuf test messages": "protobuf_test_messages.proto2.TestAllTypesProto2",
	}
	for _, o := range sources.Modules() {
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			set, err := o.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := set.Message(landmarks[o.Name]); err != nil {
				t.Error(err)
			}
			t.Logf("%d messages", len(set.Messages()))
			for _, p := range set.Problems {
				t.Log(p)
			}
		})
	}
}
