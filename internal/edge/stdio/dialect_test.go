// SPDX-License-Identifier: Apache-2.0

package stdio_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

const initialize = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// shownAs tells a listing's dialect by what only it has.
func shownAs(r reply) string {
	switch {
	case r.Error != nil && strings.Contains(r.raw, `"code":-32022`): // its data has its own shape
		return string(errmap.UnsupportedProtocolVersion)
	case r.Result == nil:
		return string(r.code())
	case r.Result.ResultType != "":
		return "modern"
	case len(r.Result.Tools) > 0 && strings.Contains(r.Result.Tools[0].Name, "."):
		return "canonical"
	case r.Result.ProtocolVersion != "":
		return "legacy " + r.Result.ProtocolVersion
	}
	return "legacy"
}

func TestDialectOfALine(t *testing.T) {
	t.Parallel()
	list := `{"jsonrpc":"2.0","id":"l","method":"tools/list","params":{}}`
	modernList := `{"jsonrpc":"2.0","id":"m","method":"tools/list","params":{` + meta + `}}`
	bare := `{"jsonrpc":"2.0","id":"b","method":"tools/list"}`
	legacyMeta := strings.Replace(modernList, "2026-07-28", "2025-11-25", 1)
	future := strings.Replace(modernList, "2026-07-28", "2099-01-01", 1)
	none := `{"jsonrpc":"2.0","id":"n","method":"initialize","params":{}}`
	for _, tc := range []struct {
		name  string
		mode  stdio.Mode
		lines []string
		want  []string
	}{
		{"auto: each line for itself", stdio.ModeAuto, []string{list, modernList, list}, []string{"canonical", "modern", "canonical"}},
		{"auto: initialize lasts", stdio.ModeAuto, []string{list, initialize, list, bare, modernList, list},
			[]string{"canonical", "legacy 2025-11-25", "legacy", "legacy", "modern", "legacy"}},
		{"auto: a legacy version in meta is canonical before initialize", stdio.ModeAuto, []string{legacyMeta, initialize, legacyMeta},
			[]string{"canonical", "legacy 2025-11-25", "legacy"}},
		{"auto: an unknown version is modern", stdio.ModeAuto, []string{future}, []string{string(errmap.UnsupportedProtocolVersion)}},
		{"auto: params are required in the canonical dialect", stdio.ModeAuto, []string{bare}, []string{string(errmap.InvalidEnvelope)}},
		{"auto: a notification called initialize changes nothing", stdio.ModeAuto,
			[]string{`{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, list}, []string{"canonical"}},
		{"auto: a faulty initialize changes nothing", stdio.ModeAuto,
			[]string{strings.Replace(initialize, `"i"`, "1.5", 1), list}, []string{string(errmap.InvalidEnvelope), "canonical"}},
		{"auto: an initialize that lacks its version is one", stdio.ModeAuto, []string{none, list}, []string{string(errmap.InvalidParams), "legacy"}},
		{"auto: modern has no initialize", stdio.ModeAuto, []string{strings.Replace(modernList, "tools/list", "initialize", 1), list},
			[]string{string(errmap.MethodNotFound), "canonical"}},
		{"auto: initialize answers with what is served", stdio.ModeAuto, []string{strings.Replace(initialize, "2025-11-25", "1999-01-01", 1)},
			[]string{"legacy 2025-11-25"}},
		{"mcp: nothing is canonical", stdio.ModeMCP, []string{list, modernList, initialize, list},
			[]string{string(errmap.InvalidEnvelope), "modern", "legacy 2025-11-25", "legacy"}},
		{"canonical: nothing is MCP", stdio.ModeCanonical, []string{list, modernList, initialize, list},
			[]string{"canonical", "canonical", string(errmap.MethodNotFound), "canonical"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := talk(t.Context(), t, sidecar(mcptest.Memory(t), mcptest.Echo), stdio.Options{Mode: tc.mode})
			var got []string
			for _, l := range tc.lines {
				p.send(l)
				if strings.Contains(l, `"id"`) {
					got = append(got, shownAs(p.reply()))
				}
			}
			if strings.Join(got, "; ") != strings.Join(tc.want, "; ") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if rest := p.end(); len(rest) > 0 {
				t.Errorf("more was written: %q", rest)
			}
		})
	}
}

// What cannot be read is answered in the words of the conversation so far: MCP
// has no null id.
func TestGarbageIsAnsweredInTheWordsOfTheConversation(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		mode stdio.Mode
		open []string
		null bool
	}{
		{"auto", stdio.ModeAuto, nil, true},
		{"auto after initialize", stdio.ModeAuto, []string{initialize}, false},
		{"mcp", stdio.ModeMCP, nil, false},
		{"canonical", stdio.ModeCanonical, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := talk(t.Context(), t, sidecar(mcptest.Memory(t), mcptest.Echo), stdio.Options{Mode: tc.mode})
			for _, l := range tc.open {
				p.send(l)
				p.reply()
			}
			for _, garbage := range []string{`{`, "\xff", "\xef\xbb\xbf{}", `{"a":1,"a":2}`} {
				p.send(garbage)
				if got := p.reply(); got.code() != errmap.ParseError || got.nullID() != tc.null {
					t.Errorf("%q: got %s", garbage, got.raw)
				}
			}
			p.end()
		})
	}
}

func TestParseMode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]stdio.Mode{"auto": stdio.ModeAuto, "mcp": stdio.ModeMCP, "canonical": stdio.ModeCanonical} {
		if got, err := stdio.ParseMode(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MCP", "legacy"} {
		if _, err := stdio.ParseMode(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
