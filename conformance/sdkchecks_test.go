// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// checks runs the checks of clients/checks.mjs, by their names there. Most share
// a session, as an application would; those of own have the client.
func (c *sdkClient) checks(t *testing.T, own map[string]func(*testing.T, *sdkClient)) {
	t.Helper()
	s := c.open(t)
	for _, check := range []struct {
		name string
		run  func(*testing.T, *sdkSession)
	}{
		{"connect", c.connected},
		{"list", sdkList},
		{"call", sdkCall},
		{"headers", c.headers},
		{"content", sdkContent},
		{"errors", sdkErrors},
		{"resources", c.resources},
		{"prompts", sdkPrompts},
		{"completion", sdkCompletion},
		{"progress", sdkProgress},
		{"cancel", sdkCancel},
		{"elicitation", sdkElicitation},
		{"sampling", answered(map[string]string{"test_input_required_result_sampling": "The model says: Paris."})},
		{"roots", answered(map[string]string{"test_input_required_result_list_roots": "Opened: file:///tmp"})},
		{"rounds", sdkRounds},
		{"no capabilities", nil},
		{"changes", sdkChanges},
		{"subscribe", c.subscribe},
		{"logs", c.logs},
		{"log level", nil},
		{"resume", nil},
		{"end session", nil},
		{"tasks", nil},
	} {
		t.Run(check.name, func(t *testing.T) {
			if run := own[check.name]; run != nil {
				run(t, c)
				return
			}
			check.run(t, s)
		})
	}
}

func (c *sdkClient) connected(t *testing.T, s *sdkSession) {
	if got := s.InitializeResult().ProtocolVersion; got != c.version {
		t.Errorf("the session speaks %s, want %s", got, c.version)
	}
	can := s.InitializeResult().Capabilities
	if can.Tools == nil || !can.Tools.ListChanged || can.Resources == nil || !can.Resources.Subscribe {
		t.Errorf("the server can do %+v", can)
	}
	if c.version == caller.LegacyVersion {
		if err := s.Ping(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
}

func sdkList(t *testing.T, s *sdkSession) {
	var names []string
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if len(names) <= 40 {
		t.Errorf("%d tools", len(names))
	}
	for _, want := range []string{"about", "test_simple_text", "slow_compute", "test_x_mcp_header"} {
		if !slices.Contains(names, want) {
			t.Errorf("no tool %s in %v", want, names)
		}
	}
}

func sdkCall(t *testing.T, s *sdkSession) {
	if got := s.text(t, "greet", `{"name":"Wörld"}`); got != "Hello, Wörld!" {
		t.Errorf("got %q", got)
	}
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "test_simple_text"})
	if err != nil || res.IsError {
		t.Errorf("without arguments: %+v, %v", res, err)
	}
}

// headers passes an argument that has to be repeated in a header, encoded. The
// SDK does so only for tools that it has listed.
func (c *sdkClient) headers(t *testing.T, s *sdkSession) {
	if c.stdio {
		absent(t, "stdio has no headers")
	}
	sdkList(t, s)
	if got := s.text(t, "test_x_mcp_header", `{"region":"Zürich"}`); got != "Region: Zürich" {
		t.Errorf("got %q", got)
	}
}

func sdkContent(t *testing.T, s *sdkSession) {
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "test_multiple_content_types"})
	if err != nil || len(res.Content) != 3 {
		t.Fatalf("got %+v, %v", res, err)
	}
	if picture, ok := res.Content[1].(*mcp.ImageContent); !ok || !strings.HasPrefix(string(picture.Data), "\x89PNG") {
		t.Errorf("a picture is %+v", res.Content[1])
	}
	res, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "test_audio_content"})
	if err != nil || len(res.Content) != 1 {
		t.Fatalf("got %+v, %v", res, err)
	}
	if sound, ok := res.Content[0].(*mcp.AudioContent); !ok || !strings.HasPrefix(string(sound.Data), "RIFF") {
		t.Errorf("a sound is %+v", res.Content[0])
	}
}

func sdkErrors(t *testing.T, s *sdkSession) {
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "test_error_handling"})
	if err != nil || !res.IsError {
		t.Errorf("got %+v, %v", res, err)
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "no_such_tool"}); wireCode(err) != -32602 {
		t.Errorf("got %v, want code -32602", err)
	}
}

func (c *sdkClient) resources(t *testing.T, s *sdkSession) {
	var uris, templates []string
	for resource, err := range s.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, resource.URI)
	}
	for template, err := range s.ResourceTemplates(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		templates = append(templates, template.URITemplate)
	}
	if !slices.Contains(uris, "test://static-text") || !slices.Equal(templates, []string{"test://template/{id}/data"}) {
		t.Errorf("resources %v, templates %v", uris, templates)
	}
	read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://template/123/data"})
	if err != nil || !strings.Contains(read.Contents[0].Text, `"123"`) {
		t.Errorf("read %+v, %v", read, err)
	}
	read, err = s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://static-binary"})
	if err != nil || !strings.HasPrefix(string(read.Contents[0].Blob), "\x89PNG") {
		t.Errorf("read %+v, %v", read, err)
	}
	want := map[string]int64{caller.ModernVersion: -32602, caller.LegacyVersion: -32002}[c.version]
	if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://no-such-resource"}); wireCode(err) != want {
		t.Errorf("got %v, want code %d", err, want)
	}
}

func sdkPrompts(t *testing.T, s *sdkSession) {
	var prompts []string
	for prompt, err := range s.Prompts(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		prompts = append(prompts, prompt.Name)
	}
	if !slices.Contains(prompts, "test_simple_prompt") {
		t.Errorf("prompts %v", prompts)
	}
	prompt, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{
		Name: "test_prompt_with_arguments", Arguments: map[string]string{"arg1": "a", "arg2": "b"},
	})
	if err != nil || len(prompt.Messages) != 1 {
		t.Fatalf("prompt %+v, %v", prompt, err)
	}
	if text, ok := prompt.Messages[0].Content.(*mcp.TextContent); !ok || text.Text != "Prompt with arguments: arg1='a', arg2='b'" {
		t.Errorf("prompt says %+v", prompt.Messages[0].Content)
	}
	if _, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "no_such_prompt"}); wireCode(err) != -32602 {
		t.Errorf("got %v, want code -32602", err)
	}
}

func sdkCompletion(t *testing.T, s *sdkSession) {
	complete, err := s.Complete(t.Context(), &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"},
		Argument: mcp.CompleteParamsArgument{Name: "arg1", Value: "testi"},
	})
	if err != nil || !slices.Equal(complete.Completion.Values, []string{"testing"}) {
		t.Errorf("completion %+v, %v", complete, err)
	}
}

func sdkProgress(t *testing.T, s *sdkSession) {
	params := &mcp.CallToolParams{Name: "test_tool_with_progress"}
	params.SetProgressToken("progress")
	if _, err := s.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "three reports arrived", func() bool { return slices.Equal(s.steps("progress"), []float64{0, 50, 100}) })
}

func sdkCancel(t *testing.T, s *sdkSession) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	params := &mcp.CallToolParams{Name: "test_wait", Arguments: json.RawMessage(`{"key":"sdk","milliseconds":60000}`)}
	params.SetProgressToken("cancel")
	done := make(chan error, 1)
	go func() { _, err := s.CallTool(ctx, params); done <- err }()
	testkit.Until(t, "the call is under way", func() bool { return len(s.steps("cancel")) == 1 })
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left got %v", err)
	}
	testkit.Until(t, "the backend saw the cancellation", func() bool {
		return s.text(t, "test_wait_outcome", `{"key":"sdk"}`) == "cancelled"
	})
}

// answered calls tools that ask before they answer.
func answered(want map[string]string) func(*testing.T, *sdkSession) {
	return func(t *testing.T, s *sdkSession) {
		for name, want := range want {
			if got := s.text(t, name, "{}"); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
}

func sdkElicitation(t *testing.T, s *sdkSession) {
	const name = "test_input_required_result_elicitation"
	if got := s.text(t, name, "{}"); got != "Hello, Alice!" {
		t.Errorf("got %q", got)
	}
	s.declines.Store(true)
	defer s.declines.Store(false)
	if got := s.text(t, name, "{}"); got != "The user would rather not say." {
		t.Errorf("declined: %q", got)
	}
}

func sdkRounds(t *testing.T, s *sdkSession) {
	answered(map[string]string{
		"test_input_required_result_multiple_inputs": `Alice says "Paris." and opened file:///tmp`,
		"test_input_required_result_multi_round":     "Alice likes blue",
		"test_input_required_result_request_state":   "state-ok: the answer is true",
	})(t, s)
	prompt, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "test_input_required_result_prompt"})
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := prompt.Messages[0].Content.(*mcp.TextContent); !ok || text.Text != "In the context of tests." {
		t.Errorf("prompt says %+v", prompt.Messages[0].Content)
	}
	read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://input-required"})
	if err != nil || read.Contents[0].Text != "For the eyes of Alice." {
		t.Errorf("read %+v, %v", read, err)
	}
}

func sdkChanges(t *testing.T, s *sdkSession) {
	s.text(t, "test_trigger_tool_change", "{}")
	testkit.Until(t, "the tools changed", func() bool { return s.tools.Load() > 0 })
	s.text(t, "test_trigger_prompt_change", "{}")
	testkit.Until(t, "the prompts changed", func() bool { return s.prompts.Load() > 0 })
}

// subscribe hears of a resource. In the modern era the SDK does not wait for the
// acknowledgement, so a change right behind may come too early for it.
func (c *sdkClient) subscribe(t *testing.T, s *sdkSession) {
	const uri = "test://watched-resource"
	if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
	s.text(t, "test_trigger_resource_update", "{}")
	testkit.Until(t, "the resource changed", func() bool {
		if c.version == caller.ModernVersion && s.updated.Load() == 0 {
			s.text(t, "test_trigger_resource_update", "{}")
		}
		return s.updated.Load() > 0
	})
	if err := s.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: uri}); err != nil {
		t.Error(err)
	}
}

func (c *sdkClient) logs(t *testing.T, s *sdkSession) {
	params := &mcp.CallToolParams{Name: "test_tool_with_logging", Meta: mcp.Meta{mcp.MetaKeyLogLevel: "info"}} //nolint:staticcheck // deprecated and to be served
	if c.version == caller.LegacyVersion {
		params.Meta = nil
		if err := s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil { //nolint:staticcheck // MCP deprecates logging, and clients have it
			t.Fatal(err)
		}
	}
	if _, err := s.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	s.hasLogs(t)
}
