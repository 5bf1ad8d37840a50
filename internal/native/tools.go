// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"crypto/sha256"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// Tools returns all tools, page by page, in the backend's order. If a list is longer
// than MaxTools, MaxPages or MaxListBytes, or a cursor repeats, the error is an
// *InvalidAnswerError and there is no list. Tools checks each name by itself. The
// catalog checks for name collisions.
func (c *Client) Tools(ctx context.Context) ([]*outriggerv1.Tool, error) {
	const procedure = outriggerv1connect.ToolServiceListToolsProcedure
	var (
		tools []*outriggerv1.Tool
		bytes int
		seen  = map[[sha256.Size]byte]struct{}{} // cursors may be long, and there may be many
		in    outriggerv1.ListToolsRequest
	)
	for range c.opts.MaxPages {
		page := new(outriggerv1.ListToolsResponse)
		size, _, err := c.exchange(ctx, procedure, &in, page, nil)
		if err != nil {
			return nil, err
		}
		tools = append(tools, page.GetTools()...)
		bytes += size
		switch {
		case len(tools) > c.opts.MaxTools:
			return nil, invalid(procedure, KeywordLimit, "wanted at most %d tools", c.opts.MaxTools)
		case bytes > c.opts.MaxListBytes:
			return nil, invalid(procedure, KeywordLimit, "wanted at most %d bytes on all pages", c.opts.MaxListBytes)
		case page.NextCursor == nil: // the empty string is a cursor like any other
			return tools, nil
		}
		cursor := sha256.Sum256([]byte(page.GetNextCursor()))
		if _, again := seen[cursor]; again {
			return nil, invalid(procedure, KeywordCursor, "wanted a cursor that no earlier page had")
		}
		seen[cursor] = struct{}{}
		in.Cursor = page.NextCursor
	}
	return nil, invalid(procedure, KeywordLimit, "wanted at most %d pages", c.opts.MaxPages)
}
