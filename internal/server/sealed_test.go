// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/operationtest"
)

// TestSealedValuesStayReadable brings back what each release handed out under the same keys: states of dialogues, cursors, ids of
// tasks and handles of operations. -update adds values that are missing, and changes none.
func TestSealedValuesStayReadable(t *testing.T) {
	t.Parallel()
	desk := mcptest.Desk()
	desk.PageSize = 1
	native := mcptest.Start(t, mcptest.Options{Native: desk, Adjust: mcptest.Fixed(t), Configure: func(c *configv1.Config) {
		c.Destructive, c.Limits.MaxPageEntries = proto.String("confirm"), proto.Int32(1)
	}}).Serve(t)
	operations := mcptest.Start(t, mcptest.Options{Behind: operationtest.Start(t).URL, Adjust: mcptest.Fixed(t)}).Serve(t)

	releases, err := filepath.Glob(filepath.Join("..", "..", "testdata", "releases", "*"))
	if err != nil || len(releases) == 0 {
		t.Fatalf("no release is on record (%v)", err)
	}
	all := map[string]map[string]string{} // by folder
	for _, release := range releases {
		sealed := map[string]string{}
		if text, err := os.ReadFile(filepath.Join(release, "sealed.json")); err != nil && !*update {
			t.Fatal(err)
		} else if err == nil {
			if err := json.Unmarshal(text, &sealed); err != nil {
				t.Fatal(err)
			}
		}
		all[release] = sealed
	}
	client := mcptest.Client(t, 1)
	const accept = `"inputResponses":{"`
	for _, tt := range []struct {
		name, url           string
		method, target      string
		params, member      string // of the request, and the member of its result that is sealed
		then, more, brought string // the request that brings it back, with more parameters, as that parameter
		want                string // in its answer
	}{
		{"state of a tool", native, "tools/call", "sign", `"name":"sign","arguments":{"letter":1}`, "requestState", "",
			`"name":"sign","arguments":{"letter":1},` + accept + `name":{"action":"accept","content":{"name":"Ann"}}}`, "requestState", "Signed by Ann."},
		{"consent", native, "tools/call", "wipe", `"name":"wipe","arguments":{"drawer":3}`, "requestState", "",
			`"name":"wipe","arguments":{"drawer":3},` + accept + `outrigger_confirm":{"action":"accept","content":{"confirm":true}}}`, "requestState", "All gone."},
		{"state of a resource", native, "resources/read", "desk://safe", `"uri":"desk://safe"`, "requestState", "",
			`"uri":"desk://safe",` + accept + `why":{"action":"accept","content":{"why":"x"}}}`, "requestState", "a coconut"},
		{"state of a prompt", native, "prompts/get", "apologise", `"name":"apologise"`, "requestState", "",
			`"name":"apologise",` + accept + `for":{"action":"accept","content":{"what":"x"}}}`, "requestState", "Say sorry."},
		{"cursor of tools", native, "tools/list", "", "", "nextCursor", "", "", "cursor", `"tools":[{`},
		{"cursor of resources", native, "resources/list", "", "", "nextCursor", "", "", "cursor", `"resources":[{`},
		{"cursor of templates", native, "resources/templates/list", "", "", "nextCursor", "", "", "cursor", `"resourceTemplates":[{`},
		{"cursor of prompts", native, "prompts/list", "", "", "nextCursor", "", "", "cursor", `"prompts":[{`},
		{"task", native, "tools/call", "begin", `"name":"begin","arguments":{"job":"drying"}`, "taskId", "tasks/get", "", "taskId", "The oven is broken."},
		{"operation", operations, "tools/call", "studio_import_video", `"name":"studio_import_video","arguments":{"uri":"x"}`, "taskId", "tasks/get", "", "taskId", `"status":"working"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begun := callModern(t, client, tt.url, tt.method, tt.params, tt.target)
			found := regexp.MustCompile(`"` + tt.member + `":"(v1\.[A-Za-z0-9_-]+)"`).FindStringSubmatch(begun.body)
			if found == nil {
				t.Fatalf("nothing is sealed: %s", begun.body)
			}
			for release, sealed := range all {
				if *update && sealed[tt.name] == "" {
					sealed[tt.name] = found[1]
				}
				method, target, params := tt.method, tt.target, `"`+tt.brought+`":"`+sealed[tt.name]+`"`
				if tt.then != "" {
					method, target = tt.then, sealed[tt.name]
				}
				if tt.more != "" {
					params = tt.more + "," + params
				}
				if got := callModern(t, client, tt.url, method, params, target); !strings.Contains(got.body, tt.want) {
					t.Errorf("%s: %s, want %s", filepath.Base(release), got.body, tt.want)
				}
			}
		})
	}
	for release, sealed := range all {
		if !*update {
			break
		}
		text, err := json.MarshalIndent(sealed, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(release, "sealed.json"), append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
