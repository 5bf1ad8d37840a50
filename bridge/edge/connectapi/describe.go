// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Describe tells what the sidecar is and offers. Like every RPC about tools it
// waits for the first catalog, or it would count none.
func (s *Service) Describe(ctx context.Context, req *connect.Request[outriggerv1.DescribeRequest]) (*connect.Response[outriggerv1.ServerDescription], error) {
	resp := s.bridge.Handle(ctx, s.request(bridge.OpList, req))
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	server := s.bridge.Server()
	return connect.NewResponse(&outriggerv1.ServerDescription{
		Name: server.Name, Title: server.Title, Version: server.Version, Instructions: server.Instructions,
		ContractVersion: bridge.ContractVersion,
		// Exactly what answers: there are no resources, prompts, completions, logs
		// and tasks here yet.
		Capabilities:     &outriggerv1.ServerCapabilities{Tools: &outriggerv1.ToolsCapability{ListChanged: s.announcer != nil}},
		ToolsCount:       int32(len(resp.Catalog.Tools())),
		ProtocolVersions: bridge.Versions(),
	}), nil
}
