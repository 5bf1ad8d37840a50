// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/operationtest"
)

// A list in pages says how to go on. Where its tool is set to, a call fetches all pages, within the bounds of one result.
func TestListsInPages(t *testing.T) {
	t.Parallel()
	const list = `"name":"studio_list_videos","arguments":`
	for _, tc := range []struct {
		name      string
		all       bool
		videos    int
		items     int32
		arguments string
		calls     int
		has, not  string
	}{
		{"one page of more", false, 25, 0, `{}`, 1, `call again with pageToken set to the nextPageToken`, "videos/10"},
		{"the last page", false, 25, 0, `{"pageToken":"20"}`, 1, "videos/24", "call again"},
		{"all pages", true, 25, 0, `{}`, 3, "videos/24", "incomplete"},
		{"all of the rest", true, 25, 0, `{"pageToken":"20"}`, 1, "videos/24", "videos/19"},
		{"more than a result holds", true, 25, 15, `{}`, 2, `"nextPageToken":"10"`, "videos/10\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, _, ann := studio(t, func(c *configv1.Config) {
				replicaOf("", time.Minute)(c)
				c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: operationtest.Service + "/ListVideos", Tool: &configv1.ToolOptions{AllPages: proto.Bool(tc.all)}})
				if tc.items > 0 {
					c.Limits.MaxResultItems = proto.Int32(tc.items)
				}
			})
			s.Videos(tc.videos)
			got := ann.send("tools/call", list+tc.arguments)
			if !strings.Contains(got.raw, tc.has) || strings.Contains(got.raw, tc.not) || s.Calls("ListVideos") != tc.calls {
				t.Errorf("%d calls, want %d: %s", s.Calls("ListVideos"), tc.calls, got.raw)
			}
			if listed := ann.send("tools/list", ""); !strings.Contains(listed.raw, "nextPageToken is not empty") {
				t.Error("the description does not say how to go on")
			}
		})
	}
}
