// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/rig"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// noted is fleet.v1.Shop with answers of two fields.
const noted = `file { name: "fleet/v1/shop.proto" package: "fleet.v1" syntax: "proto3"
message_type { name: "Ask" field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "name" } }
message_type { name: "Answer"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "name" }
  field { name: "note" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "note" } }
service { name: "Shop"
  method { name: "Look" input_type: ".fleet.v1.Ask" output_type: ".fleet.v1.Answer" options { idempotency_level: NO_SIDE_EFFECTS } }
  method { name: "Pay" input_type: ".fleet.v1.Ask" output_type: ".fleet.v1.Answer" } } }`

// TestTheResultThatWasWanted: a task has the result that its call wanted, also if the replica that began it is killed and another
// one runs it again.
func TestTheResultThatWasWanted(t *testing.T) {
	t.Parallel()
	set := new(descriptorpb.FileDescriptorSet)
	if err := prototext.Unmarshal([]byte(noted), set); err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{nats: startNATS(t, nil), shop: startShop(t), keys: rig.KeyFile(t), config: rig.Write(t, "sidecar.yaml", []byte(fleetConfig))}
	f.shop.descriptors = rig.Write(t, "shop.binpb", raw)
	a, b := f.start(t), f.start(t)
	for _, m := range f.all {
		m.Ready(t)
		m.readyz(t, "state", "ok", "1")
	}
	long := strings.Repeat("n", 400)
	begin := func(name, meta string) string {
		resp, err := a.client.CallTool(t.Context(), connect.NewRequest(&outriggerv1.ToolCall{
			ToolName: "shop.look", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"name":"` + name + `"}`)},
			MetaForm: &outriggerv1.ToolCall_MetaJson{MetaJson: []byte(meta)}, Context: tasks(),
		}))
		if err != nil || resp.Msg.GetTask() == nil {
			t.Fatalf("%s: %v, %v", meta, resp, err)
		}
		f.awaitCall(t, "Look "+name, 1)
		return resp.Msg.GetTask().GetTaskId()
	}
	masked := begin("masked", `{"dev.outrigger/fields":"note"}`)
	cut := begin(long, `{"dev.outrigger/result-budget":300}`)
	whole := begin("whole", `{}`)
	a.ExpectExit(-1)
	a.Signal(t, syscall.SIGKILL)
	a.Wait(t)
	for _, name := range []string{"masked", long, "whole"} {
		f.awaitCall(t, "Look "+name, 2)
	}
	f.shop.letGo()
	for id, want := range map[string]string{masked: `{"note":""}`, cut: `{"note":""}`, whole: `{"name":"result of Look whole","note":""}`} {
		if got := b.ends(t, id); string(got.GetResult().GetDataJson()) != want {
			t.Errorf("want %s: %v", want, got)
		}
	}
	if meta := string(b.ends(t, cut).GetResult().GetMetaJson()); !strings.Contains(meta, `"path":"/name"`) {
		t.Errorf("the cut is not named: %s", meta)
	}
}
