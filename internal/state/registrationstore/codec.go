// SPDX-License-Identifier: Apache-2.0

package registrationstore

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// encode writes a registration as it is stored. Equal ones have equal bytes.
func encode(r *catalog.Registration) ([]byte, error) {
	record := &statev1.RegistrationRecord{
		Name: r.Name, Title: r.Title, Description: r.Description, InputSchema: r.InputSchema, OutputSchema: r.OutputSchema,
		Service: r.Binding.Service, Method: r.Binding.Method,
		Module: r.Metadata.Module, Destructive: r.Metadata.Destructive, DeprecatedIn: r.Metadata.DeprecatedIn,
		ReadOnlyHint: r.Annotations.ReadOnly, DestructiveHint: r.Annotations.Destructive,
		IdempotentHint: r.Annotations.Idempotent, OpenWorldHint: r.Annotations.OpenWorld,
		Version: r.Version, TaskSupport: r.TaskSupport,
	}
	if r.Metadata.CacheTTL != nil {
		record.CacheTtl = durationpb.New(*r.Metadata.CacheTTL)
	}
	if r.Timeout != 0 {
		record.Timeout = durationpb.New(r.Timeout)
	}
	for _, e := range r.Examples {
		record.Examples = append(record.Examples, &outriggerv1.ToolExample{
			Name: e.Name, Description: e.Description, ArgumentsJson: string(e.Arguments), DataJson: string(e.Data), Status: e.Status,
		})
	}
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode a registration: %w", err)
	}
	return value, nil
}

// decode reads what encode wrote, here or at a replica of the release before or after.
func decode(value []byte) (catalog.Registration, error) {
	record := new(statev1.RegistrationRecord)
	if err := proto.Unmarshal(value, record); err != nil {
		return catalog.Registration{}, fmt.Errorf("decode a registration: %w", err)
	}
	r := catalog.Registration{
		Name: record.GetName(), Title: record.GetTitle(), Description: record.GetDescription(),
		InputSchema: record.GetInputSchema(), OutputSchema: record.GetOutputSchema(),
		Binding: catalog.Binding{Service: record.GetService(), Method: record.GetMethod()},
		Metadata: catalog.RegisteredMetadata{
			Module: record.GetModule(), Destructive: record.GetDestructive(), DeprecatedIn: record.GetDeprecatedIn(),
		},
		Annotations: catalog.Annotations{
			ReadOnly: record.ReadOnlyHint, Destructive: record.DestructiveHint, Idempotent: record.IdempotentHint, OpenWorld: record.OpenWorldHint,
		},
		Version: record.GetVersion(), Timeout: record.GetTimeout().AsDuration(), TaskSupport: record.GetTaskSupport(),
	}
	if record.GetCacheTtl() != nil {
		ttl := record.GetCacheTtl().AsDuration()
		r.Metadata.CacheTTL = &ttl
	}
	for _, e := range record.GetExamples() {
		example := catalog.Example{Name: e.GetName(), Description: e.GetDescription(), Status: e.GetStatus()}
		if text := e.GetArgumentsJson(); text != "" {
			example.Arguments = []byte(text)
		}
		if text := e.GetDataJson(); text != "" {
			example.Data = []byte(text)
		}
		r.Examples = append(r.Examples, example)
	}
	return r, nil
}
