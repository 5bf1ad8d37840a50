// SPDX-License-Identifier: Apache-2.0

package taskstore

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// encode is a record as it is stored, without its version.
func encode(r *task.Record) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(&statev1.TaskRecord{
		Id: r.ID, Principal: r.Principal, Tool: r.Tool, Task: r.Task, Origin: r.Origin,
		Keep: durationpb.New(r.Keep), Expires: timestamppb.New(r.Expires), Owner: r.Owner, Again: r.Again,
		Timeout: durationpb.New(r.Timeout), PollInterval: durationpb.New(task.PollInterval), Takeovers: uint32(r.Takeovers),
		Idempotent: r.Idempotent, Handovers: uint32(r.Handovers), View: r.View,
	})
}

// decode is the record of stored bytes with their revision.
func decode(stored []byte, revision uint64) (task.Record, error) {
	var r statev1.TaskRecord
	if err := proto.Unmarshal(stored, &r); err != nil {
		return task.Record{}, fmt.Errorf("task store: %w", err)
	}
	return task.Record{
		ID: r.GetId(), Principal: r.GetPrincipal(), Tool: r.GetTool(), Task: r.GetTask(), Origin: r.GetOrigin(),
		Keep: r.GetKeep().AsDuration(), Expires: r.GetExpires().AsTime(), Owner: r.GetOwner(), Again: r.GetAgain(),
		Timeout: r.GetTimeout().AsDuration(), Takeovers: int(r.GetTakeovers()),
		Idempotent: r.GetIdempotent(), Handovers: int(r.GetHandovers()), View: r.GetView(), Version: revision,
	}, nil
}
