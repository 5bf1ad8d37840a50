// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"math"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
)

// Describe returns what the sidecar is and offers. Like every RPC about tools, it
// waits for the first catalog. Otherwise it would count no tools.
func (s *Service) Describe(ctx context.Context, req *connect.Request[outriggerv1.DescribeRequest]) (*connect.Response[outriggerv1.ServerDescription], error) {
	resp := s.run(ctx, s.request(ctx, bridge.OpList, req))
	if resp.Err != nil {
		return nil, connectError(resp)
	}
	server, offer := s.bridge.Server(), s.bridge.Offer(resp.Catalog)
	return connect.NewResponse(&outriggerv1.ServerDescription{
		Name: server.Name, Title: server.Title, Version: server.Version, Instructions: s.bridge.Instructions(resp.Catalog),
		ContractVersion:  bridge.ContractVersion,
		Capabilities:     offer.Capabilities,
		ToolsCount:       count(offer.Tools),
		ResourcesCount:   count(offer.Resources),
		PromptsCount:     count(offer.Prompts),
		ProtocolVersions: dialect.Versions(),
		Cache:            &outriggerv1.CachePolicy{Ttl: durationpb.New(listTTL), Scope: resp.CacheScope()},
	}), nil
}

// count is a number of entries, as the contract has it.
func count(n int) int32 { return int32(min(n, math.MaxInt32)) }
