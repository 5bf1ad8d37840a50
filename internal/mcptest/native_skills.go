// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"context"

	"connectrpc.com/connect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// ListSkills implements the contract.
func (n *Native) ListSkills(_ context.Context, req *connect.Request[outriggerv1.ListSkillsRequest]) (*connect.Response[outriggerv1.ListSkillsResponse], error) {
	if err := n.check(req.Msg, false); err != nil {
		return nil, err
	}
	rows, next, err := page(n.Skills, req.Msg.Cursor, req.Msg.GetPageSize(), n.PageSize)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&outriggerv1.ListSkillsResponse{Skills: rows, NextCursor: next, Cache: n.ListCache}), nil
}

// GetSkill implements the contract.
func (n *Native) GetSkill(_ context.Context, req *connect.Request[outriggerv1.GetSkillRequest]) (*connect.Response[outriggerv1.GetSkillResponse], error) {
	if err := n.check(req.Msg, false); err != nil {
		return nil, err
	}
	for _, s := range n.Skills {
		if s.GetUri() == req.Msg.GetUri() {
			return connect.NewResponse(&outriggerv1.GetSkillResponse{Skill: s}), nil
		}
	}
	return nil, notFound("skill", req.Msg.GetUri())
}

// ReadDirectory implements the contract.
func (n *Native) ReadDirectory(_ context.Context, req *connect.Request[outriggerv1.ReadDirectoryRequest]) (*connect.Response[outriggerv1.ReadDirectoryResponse], error) {
	if err := n.check(req.Msg, false); err != nil {
		return nil, err
	}
	all, ok := n.Directories[req.Msg.GetUri()]
	if !ok {
		return nil, notFound("directory", req.Msg.GetUri())
	}
	rows, next, err := page(all, req.Msg.Cursor, req.Msg.GetPageSize(), n.PageSize)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&outriggerv1.ReadDirectoryResponse{Resources: rows, NextCursor: next, Cache: n.ListCache}), nil
}
