// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestAnOverlayMakesAWatch: the tool stays, and says where its newest message is.
func TestAnOverlayMakesAWatch(t *testing.T) {
	t.Parallel()
	watch := func(method string, isWatch bool) Override {
		return Override{Match: "garden.v1.GardenKeeper/" + method, Options: &configv1.ToolOptions{Watch: proto.Bool(isWatch)}}
	}
	loaded := loadFile(t, bufImage)
	c := mustBuild(t, BuildOptions{Overlay: []Override{watch("WatchPlants", true), watch("GetPlant", false)}}, loaded)
	tool, ok := c.ByProcedure("/garden.v1.GardenKeeper/WatchPlants")
	if !ok || !strings.HasPrefix(tool.Watch, "outrigger://watches/garden_keeper.watch_plants{?label}") || !strings.Contains(tool.Description, tool.Watch) {
		t.Fatalf("%v %q: %s", ok, tool.Watch, tool.Description)
	}
	uri, _, _ := strings.Cut(tool.Watch, "{")
	if m, _, ok := c.Resources().Match(uri); !ok || !m.IsWatch() || c.ResourceTool(m) != tool {
		t.Errorf("%s is not the resource of its tool", uri)
	}
	if plain := mustBuild(t, BuildOptions{}, loaded); plain.Resources().HasWatches() || plain.Fingerprint() == c.Fingerprint() {
		t.Error("without the overlay there is a watch, or the same catalog")
	}
	view := c.Only(func(t *Tool) bool { return t != tool })
	if view.Resources().HasWatches() {
		t.Error("a view has the watch of a tool that it lacks")
	}
	_, err := Build([]*source.Loaded{loaded}, BuildOptions{Overlay: []Override{watch("GetPlant", true)}})
	if err == nil || !strings.Contains(err.Error(), "watch: only a server-streaming RPC can be watched") {
		t.Errorf("a watch on a unary method: %v", err)
	}
}
