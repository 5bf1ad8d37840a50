// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Desk returns a Native with something of every kind that a backend can offer.
// Nothing in it depends on the time or on chance.
func Desk() *Native {
	n := &Native{
		Resources: deskResources(),
		Templates: []*outriggerv1.ResourceTemplate{
			{UriTemplate: "desk://notes/{number}", Name: "note", Title: "A note", Description: "One of the notes.", MimeType: "text/plain"},
			{UriTemplate: "desk://drawers/{drawer}/{thing}", Name: "thing"},
		},
		Prompts: deskPrompts(),
		Completions: map[string]*outriggerv1.CompleteResponse{
			"prompt greet tone":                     {Values: []string{"warm", "witty"}, Total: proto.Int32(7), HasMore: proto.Bool(true)},
			"resource desk://notes/{number} number": {Values: []string{"1"}},
		},
		Tasks: deskTasks(),
	}
	n.Tools = append(contentTools(), dialogueTools()...)
	n.Tools = append(n.Tools, n.taskTools()...)
	return n
}

// Moment is when everything in the tables happened.
func Moment() time.Time { return time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC) }

// JSONTool declares a tool with an input schema and, where it is not empty, an
// output schema.
func JSONTool(name, description, input, output string) *outriggerv1.Tool {
	t := &outriggerv1.Tool{
		Name: name, Description: description,
		InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(input)},
	}
	if output != "" {
		t.OutputSchemaForm = &outriggerv1.Tool_OutputSchemaJson{OutputSchemaJson: []byte(output)}
	}
	return t
}

// NoArguments is the input schema of a tool that takes none.
const NoArguments = `{"type":"object","additionalProperties":false}`

// Success is an outcome with data, where they are not empty, and content.
func Success(data string, content ...*outriggerv1.ContentBlock) *outriggerv1.ToolOutcome {
	result := &outriggerv1.ToolResult{Status: "success", Content: content}
	if data != "" {
		result.DataForm = &outriggerv1.ToolResult_DataJson{DataJson: []byte(data)}
	}
	return outcome(result)
}

func outcome(result *outriggerv1.ToolResult) *outriggerv1.ToolOutcome {
	return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: result}}
}

// TextBlock is content that is text.
func TextBlock(text string) *outriggerv1.ContentBlock {
	return &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Text{Text: &outriggerv1.TextContent{Text: text}}}
}

// Progress is an event: so much of ten is done.
func Progress(done float64, message string) *outriggerv1.ToolEvent {
	return &outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Progress{
		Progress: &outriggerv1.Progress{Progress: done, Total: proto.Float64(10), Message: message},
	}}
}

// Log is an event: the tool says something, which is JSON.
func Log(level outriggerv1.LogLevel, data string) *outriggerv1.ToolEvent {
	return &outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Log{Log: &outriggerv1.LogMessage{
		Level: level, Logger: "desk", DataForm: &outriggerv1.LogMessage_DataJson{DataJson: []byte(data)},
	}}}
}

// pixel is the smallest GIF.
const pixel = "GIF89a\x01\x00\x01\x00\x00\x00\x00;"

// contentTools answer at once.
func contentTools() []NativeTool {
	note := &outriggerv1.ResourceContents{
		Uri: "desk://notes/1", MimeType: "text/plain", Data: &outriggerv1.ResourceContents_Text{Text: "Buy ink."},
	}
	shown := TextBlock("Read this first.")
	shown.Annotations = &outriggerv1.Annotations{
		Audience: []outriggerv1.Role{outriggerv1.Role_ROLE_USER, outriggerv1.Role_ROLE_ASSISTANT},
		Priority: proto.Float64(0.5), LastModified: timestamppb.New(Moment()),
	}
	shown.MetaForm = &outriggerv1.ContentBlock_MetaJson{MetaJson: []byte(`{"com.example/shelf":3}`)}
	everything := JSONTool("show_everything", "Content of every kind.", NoArguments, "")
	everything.Title = "Show everything"
	everything.Icons = []*outriggerv1.Icon{{Src: "https://desk.example/icon.png", MimeType: "image/png", Sizes: []string{"48x48"}}}
	everything.Annotations = &outriggerv1.ToolAnnotations{
		ReadOnlyHint: proto.Bool(true), IdempotentHint: proto.Bool(true), OpenWorldHint: proto.Bool(false),
	}
	everything.MetaForm = &outriggerv1.Tool_MetaJson{MetaJson: []byte(`{"com.example/shelf":1}`)}
	failed := &outriggerv1.ToolResult{Status: "failure", Error: &outriggerv1.ErrorDetail{
		ErrorType: "OutOfInk", ErrorMessage: "There is no ink left.",
		ErrorDetailsForm: &outriggerv1.ErrorDetail_ErrorDetailsJson{ErrorDetailsJson: []byte(`{"bottles":0}`)},
	}}
	wipe := JSONTool("wipe", "Throw all notes away.", `{"type":"object","properties":{"drawer":{"type":"integer"},"why":{"type":"string"}}}`, "")
	wipe.Metadata = &outriggerv1.ToolMetadata{Destructive: true}
	const weight = `{"type":"object","properties":{"grams":{"type":"integer"}},"required":["grams"]}`
	return []NativeTool{
		{Declared: everything, Outcome: Success("", shown,
			&outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Image{Image: &outriggerv1.ImageContent{Data: []byte(pixel), MimeType: "image/gif"}}},
			&outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Audio{Audio: &outriggerv1.AudioContent{Data: []byte("RIFF"), MimeType: "audio/wav"}}},
			&outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_ResourceLink{ResourceLink: &outriggerv1.ResourceLink{
				Uri: "desk://notes/1", Name: "note-1", Title: "The first note", Size: proto.Int64(8),
			}}},
			&outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Resource{Resource: &outriggerv1.EmbeddedResource{Contents: note}}},
		)},
		{Declared: JSONTool("weigh", "Weigh a parcel.", `{"type":"object","properties":{"parcel":{"type":"string"}},"required":["parcel"],"additionalProperties":false}`, weight), Outcome: Success(`{"grams":250}`)},
		{Declared: JSONTool("count", "Count all letters.", NoArguments, `{"type":"integer"}`), Outcome: Success(`9007199254740993`)},
		{Declared: JSONTool("misweigh", "Answers otherwise than it promises.", NoArguments, weight), Outcome: Success(`{"grams":"heavy"}`)},
		{Declared: JSONTool("forget", "Promises data and brings none.", NoArguments, weight), Outcome: Success("", TextBlock("What was it?"))},
		{Declared: JSONTool("tidy", "Put everything in its place.", NoArguments, ""), Outcome: outcome(&outriggerv1.ToolResult{
			Status: "no_change_needed", Explanation: "Everything is in its place.",
		})},
		{Declared: JSONTool("write", "Write a letter.", NoArguments, ""), Outcome: outcome(failed)},
		{Declared: JSONTool("refuse", "Is never allowed.", NoArguments, ""), Err: connect.NewError(connect.CodePermissionDenied, errors.New("the desk is closed"))},
		{Declared: wipe, Outcome: Success("", TextBlock("All gone."))},
		{Declared: JSONTool("route", "Send a letter.", routeSchema, ""), Run: echoArguments},
		{Declared: JSONTool("sort", "Sort the letters.", NoArguments, ""), Outcome: Success("", TextBlock("Sorted.")), Events: []*outriggerv1.ToolEvent{
			Progress(1, "a start"),
			Log(outriggerv1.LogLevel_LOG_LEVEL_DEBUG, `"Opened the drawer."`),
			Progress(4, ""),
			Log(outriggerv1.LogLevel_LOG_LEVEL_WARNING, `{"drawer":3,"letters":9007199254740993}`),
			Progress(4, "the same again"),
			Progress(2.5, "less than before"),
			Progress(10, "done"),
		}, Late: []*outriggerv1.ToolEvent{Progress(11, "after the end"), Log(outriggerv1.LogLevel_LOG_LEVEL_EMERGENCY, `"after the end"`)}},
	}
}

// routeSchema marks arguments that clients repeat in headers.
const routeSchema = `{"type":"object","properties":{` +
	`"region":{"type":"string","x-mcp-header":"Region"},` +
	`"express":{"type":"boolean","x-mcp-header":"Express"},` +
	`"stop":{"type":"integer","x-mcp-header":"Stop"},` +
	`"to":{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}}},` +
	`"note":{"type":"string"}}}`

// echoArguments answers with the arguments.
func echoArguments(_ context.Context, call *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
	raw := call.GetArgumentsJson()
	if call.GetArguments() != nil {
		var err error
		if raw, err = protojson.Marshal(call.GetArguments()); err != nil {
			return nil, err
		}
	}
	return Success(string(raw)), nil
}

// dialogueTools ask before they answer.
func dialogueTools() []NativeTool {
	const form = `{"type":"object","properties":{"name":{"type":"string","minLength":1}},"required":["name"]}`
	return []NativeTool{
		{
			Declared: JSONTool("sign", "Sign the letter.", `{"type":"object","properties":{"letter":{"type":"integer"}}}`, ""),
			Dialogue: Dialogue{{"name": AskForm("Who signs?", form)}},
			Run: func(_ context.Context, call *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
				return Success("", TextBlock("Signed by "+answerText(call.GetInputResponses()["name"], "name")+".")), nil
			},
		},
		{
			Declared: JSONTool("interview", "Ask the client all there is to ask.", NoArguments, ""),
			Dialogue: Dialogue{
				{"folders": AskRoots(), "name": AskForm("Who are you?", form), "slogan": AskModel("A slogan for a desk, please.")},
				{"sure": AskForm("Is that all?", `{"type":"object","properties":{"yes":{"type":"boolean"}}}`)},
			},
			Outcome: Success("", TextBlock("Thank you.")),
		},
		{
			Declared: JSONTool("pay", "Pay at the counter's page.", NoArguments, ""),
			Dialogue: Dialogue{{"paid": AskURL("Please pay.", "https://desk.example/pay")}},
			Outcome:  Success("", TextBlock("Paid.")),
		},
	}
}

// answerText is a member of a form that the user filled in.
func answerText(answer *outriggerv1.InputResponse, member string) string {
	raw, _ := jsontext.Lookup(answer.GetElicitation().GetContentJson(), member)
	text, _ := jsontext.Text(raw)
	return text
}

func deskResources() []NativeResource {
	return []NativeResource{
		{
			Listed: &outriggerv1.Resource{
				Uri: "desk://notes/1", Name: "note-1", Title: "The first note", Description: "What to buy.",
				MimeType: "text/plain", Size: proto.Int64(8),
				Annotations: &outriggerv1.Annotations{Priority: proto.Float64(1), LastModified: timestamppb.New(Moment())},
				MetaForm:    &outriggerv1.Resource_MetaJson{MetaJson: []byte(`{"com.example/shelf":2}`)},
			},
			Contents: []*outriggerv1.ResourceContents{{
				Uri: "desk://notes/1", MimeType: "text/plain", Data: &outriggerv1.ResourceContents_Text{Text: "Buy ink."},
			}},
			Cache: &outriggerv1.CachePolicy{Ttl: durationpb.New(time.Minute), Scope: outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC},
		},
		{
			Listed: &outriggerv1.Resource{Uri: "desk://seal", Name: "seal", MimeType: "image/gif"},
			Contents: []*outriggerv1.ResourceContents{
				{Uri: "desk://seal", MimeType: "image/gif", Data: &outriggerv1.ResourceContents_Blob{Blob: []byte(pixel)}},
				{Uri: "desk://seal/motto", Data: &outriggerv1.ResourceContents_Text{Text: ""}},
			},
		},
		{
			Listed:   &outriggerv1.Resource{Uri: "desk://safe", Name: "safe"},
			Dialogue: Dialogue{{"why": AskForm("Why do you want to open the safe?", `{"type":"object","properties":{"why":{"type":"string"}}}`)}},
			Contents: []*outriggerv1.ResourceContents{{Uri: "desk://safe", Data: &outriggerv1.ResourceContents_Text{Text: "a coconut"}}},
			Cache:    &outriggerv1.CachePolicy{Ttl: durationpb.New(time.Hour), Scope: outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC},
		},
		{Contents: []*outriggerv1.ResourceContents{{Uri: "desk://notes/2", Data: &outriggerv1.ResourceContents_Text{Text: "Not listed."}}}},
	}
}

func deskPrompts() []NativePrompt {
	says := func(role outriggerv1.Role, block *outriggerv1.ContentBlock) *outriggerv1.PromptMessage {
		return &outriggerv1.PromptMessage{Role: role, Content: block}
	}
	return []NativePrompt{
		{
			Declared: &outriggerv1.Prompt{Name: "greet", Title: "Greet", Description: "A greeting.", Arguments: []*outriggerv1.PromptArgument{
				{Name: "name", Description: "Whom.", Required: true}, {Name: "tone", Title: "Tone"},
			}},
			Result: func(arguments map[string]string) *outriggerv1.PromptResult {
				return &outriggerv1.PromptResult{Description: "A greeting for " + arguments["name"], Messages: []*outriggerv1.PromptMessage{
					says(outriggerv1.Role_ROLE_USER, TextBlock("Greet "+arguments["name"]+".")),
					says(outriggerv1.Role_ROLE_ASSISTANT, &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Image{
						Image: &outriggerv1.ImageContent{Data: []byte(pixel), MimeType: "image/gif"},
					}}),
				}}
			},
		},
		{
			Declared: &outriggerv1.Prompt{Name: "apologise"},
			Dialogue: Dialogue{{"for": AskForm("For what?", `{"type":"object","properties":{"what":{"type":"string"}}}`)}},
			Result: func(map[string]string) *outriggerv1.PromptResult {
				return &outriggerv1.PromptResult{Messages: []*outriggerv1.PromptMessage{says(outriggerv1.Role_ROLE_USER, TextBlock("Say sorry."))}}
			},
		},
	}
}
