// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// TestContractOfTheCommands has what the contract says of commands.
func TestContractOfTheCommands(t *testing.T) {
	t.Parallel()
	printed := func(t *testing.T, args ...string) []byte {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, nil); code != exitOK {
			t.Fatalf("%v: exit code %d: %s", args, code, &stderr)
		}
		return stdout.Bytes()
	}
	indented := func(t *testing.T, raw []byte) {
		t.Helper()
		var want bytes.Buffer
		if err := json.Indent(&want, bytes.TrimSpace(raw), "", "  "); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(bytes.TrimSpace(raw))); diff != "" {
			t.Errorf("(-indented +printed):\n%s", diff)
		}
	}

	t.Run("sidecar tools prints indented JSON", func(t *testing.T) {
		t.Parallel()
		indented(t, printed(t, "tools", "--demo", "--json"))
		indented(t, printed(t, "tools", "lab.echo", "--demo", "--json"))
		indented(t, printed(t, "tools", "lab.echo", "--demo", "--spec", "--json"))
	})

	t.Run("sidecar tools --signature prints what programs know", func(t *testing.T) {
		t.Parallel()
		text := string(printed(t, "tools", "lab.echo", "fleet.get_map", "fleet.get_order#Parcel", "--demo", "--signature"))
		for _, want := range []string{"\nlab.echo(", "\nfleet.get_map() -> Area:\n", "\nParcel:\n contents: str"} {
			if strings.Count(text, want) != 1 {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		for args, want := range map[string]string{
			"lab.eco --signature": "the nearest names are lab.echo", "lab.echo#Nothing --signature": "its signature names its types",
			"--signature": "missing argument", "lab.echo fleet.get_map": "unexpected argument", "lab.echo --signature --json": "exclude each other",
		} {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), strings.Fields("tools --demo "+args), strings.NewReader(""), &stdout, &stderr, nil); code == exitOK || !strings.Contains(stderr.String(), want) {
				t.Errorf("%s: exit code %d: %s", args, code, &stderr)
			}
		}
	})

	t.Run("sidecar tools --spec prints Markdown, and JSON where asked", func(t *testing.T) {
		t.Parallel()
		if page := printed(t, "tools", "lab.echo", "--demo", "--spec"); !bytes.HasPrefix(page, []byte("# `lab.echo`\n")) {
			t.Errorf("%s", page)
		}
		if page := printed(t, "tools", "lab.echo", "--demo", "--spec", "--json"); !json.Valid(page) {
			t.Errorf("%s", page)
		}
	})
}

// TestContractOfDescriptions has the sentence about where a sidecar describes
// itself.
func TestContractOfDescriptions(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "serve", "--demo")
	said := described(t, p, "/rpc")
	var canonical struct {
		Name      string `json:"name"`
		Version   string `json:"version"`
		Contract  string `json:"contract_version"`
		Tools     int32  `json:"tools_count"`
		Resources int32  `json:"resources_count"`
		Prompts   int32  `json:"prompts_count"`
		Offers    struct {
			Tools     struct{ ListChanged bool }
			Resources struct{ ListChanged, Subscribe bool }
			Prompts   struct{ ListChanged bool }
		} `json:"capabilities"`
	}
	if err := json.Unmarshal([]byte(said), &canonical); err != nil {
		t.Fatal(err)
	}

	t.Run("the admin listener says what server/describe says", func(t *testing.T) {
		if got := described(t, p, "/describe"); got != said {
			t.Errorf("%s, not %s", got, said)
		}
	})

	t.Run("ToolService.Describe says what server/describe says", func(t *testing.T) {
		resp, err := p.client(t).Describe(t.Context(), connect.NewRequest(&outriggerv1.DescribeRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		d := resp.Msg
		if d.GetName() != canonical.Name || d.GetVersion() != canonical.Version || d.GetContractVersion() != canonical.Contract ||
			d.GetToolsCount() != canonical.Tools || d.GetResourcesCount() != canonical.Resources || d.GetPromptsCount() != canonical.Prompts {
			t.Errorf("%v, not %s", d, said)
		}
		offers, c := canonical.Offers, d.GetCapabilities()
		if !offers.Tools.ListChanged || offers.Tools.ListChanged != c.GetTools().GetListChanged() ||
			offers.Resources.ListChanged != c.GetResources().GetListChanged() || offers.Resources.Subscribe != c.GetResources().GetSubscribe() ||
			offers.Prompts.ListChanged != c.GetPrompts().GetListChanged() {
			t.Errorf("%v, not %s", c, said)
		}
	})
}
