// SPDX-License-Identifier: Apache-2.0

package report

import "slices"

// lintClient is a client of MCP, or a model provider that clients pass schemas to.
type lintClient struct {
	// Name chooses the client. Title is how people call it.
	Name, Title string
	// Prefixed is set if the name of the server is part of the name that the client gives to a tool: Before, name of the
	// server, Between, name of the tool.
	Prefixed        bool
	Before, Between string
}

// NameOf returns the name that the client gives to a tool of a server.
func (c lintClient) NameOf(server, tool string) string {
	if !c.Prefixed {
		return tool
	}
	return c.Before + server + c.Between + tool
}

// lintClients lists the clients, by name.
func lintClients() []lintClient {
	return []lintClient{
		{Name: "claude-code", Title: "Claude Code", Prefixed: true, Before: "mcp__", Between: "__"},
		{Name: "claude-desktop", Title: "Claude Desktop"},
		{Name: "cursor", Title: "Cursor", Prefixed: true},
		{Name: "gemini", Title: "Gemini"},
		{Name: "gemini-cli", Title: "Gemini CLI", Prefixed: true, Before: "mcp_", Between: "_"},
		{Name: "openai", Title: "OpenAI"},
		{Name: "openai-strict", Title: "OpenAI strict mode"},
		{Name: "typescript-sdk", Title: "MCP TypeScript SDK"},
		{Name: "vscode", Title: "VS Code"},
	}
}

// ClientNames lists the names of the clients.
func ClientNames() []string {
	var out []string
	for _, c := range lintClients() {
		out = append(out, c.Name)
	}
	return out
}

// ProfileClients lists the clients that refuse no schema of a profile (--schema-profile). The corpus of public APIs holds
// the profiles to it.
func ProfileClients(profile string) []string {
	if profile == "strict" {
		return ClientNames()
	}
	return []string{"cursor", "vscode"}
}

// schemaSide says which schemas of a tool a fact is about.
type schemaSide uint8

// The schemas: those of arguments, those of results, or both.
const (
	inputSchemas schemaSide = 1 << iota
	outputSchemas
	allSchemas = inputSchemas | outputSchemas
)

// String returns "input", "output" or "input, output".
func (w schemaSide) String() string {
	switch w {
	case inputSchemas:
		return "input"
	case outputSchemas:
		return "output"
	case allSchemas:
		return "input, output"
	default:
		return ""
	}
}

// lintFact is what is known of one client: a rule, its limits, what happens to a list that breaks it, and who says so.
type lintFact struct {
	// Client is the name of the client; empty for a fact that holds for every client.
	Client string
	// Rule is the ID of the rule.
	Rule string
	// Level is Error for what a client refuses or cuts.
	Level Level
	// Limit is the highest number that is fine: tools, characters, levels, values or tokens, as the rule says.
	Limit int
	// Where are the schemas that it is about; 0 if it is not about schemas.
	Where schemaSide
	// Words are the keywords or formats that the rule is about.
	Words []string
	// Pattern is the regular expression that the rule is about.
	Pattern string
	// Effect says what happens otherwise.
	Effect string
	// Source is a URL. Date is the day on which it said so.
	Source, Date string
}

const (
	readOn = "2026-11-26"

	sourceClaudeNames      = "https://github.com/anthropics/claude-code/issues/20643"
	sourceClaudeCombinator = "https://github.com/anthropics/claude-code/issues/27337"
	sourceClaudeProperties = "https://github.com/beautyfree/appstore-connect-mcp/issues/1"
	sourceBounds           = "https://github.com/RevenueCat/ai-toolkit/issues/26"
	sourceVSCodeTools      = "https://github.com/microsoft/vscode/issues/337428"
	sourceVSCodeItems      = "https://github.com/microsoft/vscode/issues/246119"
	sourceOpenAIFunctions  = "https://platform.openai.com/docs/guides/function-calling"
	sourceOpenAIItems      = "https://github.com/langgenius/dify/issues/32894"
	sourceOpenAIStrict     = "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"
	sourceGeminiSchema     = "https://ai.google.dev/api/caching#Schema"
	sourceGeminiFormats    = "https://github.com/google-gemini/gemini-cli/issues/5450"
	sourceCursorTools      = "https://easymanage.com/res/docs/tutorials/ai-solutions/chapter-3-mcp-advanced"
	sourceMCPTools         = "https://modelcontextprotocol.io/specification/2026-07-28/server/tools"
	sourceToolNames        = "https://modelcontextprotocol.io/seps/986-specify-format-for-tool-names"
	sourceOwn              = "https://github.com/outrigger-mcp/outrigger/blob/main/docs/lint.md#rules"
)

// lintFacts lists everything that is known of clients. It is the one place for their numbers.
func lintFacts() []lintFact {
	return slices.Concat(claudeFacts(), editorFacts(), openAIFacts(), geminiFacts(), everyFacts())
}

const (
	effectRequest = "the request is refused"
	effectTool    = "the tool cannot be used"
	effectServer  = "all tools of the server are dropped"

	// Each part is of the thread that names the version.
	effectClaudeProperties = "1.0.51 to 2.0.10 refuse every request, 2.1.233 every request once the tool was loaded, and 2.1.263 drops the tool without a word"
)

// boundWords are the keywords whose values are bounds.
func boundWords() []string {
	return []string{"exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf"}
}

func claudeFacts() []lintFact {
	return []lintFact{
		{Client: "claude-code", Rule: "name-length", Level: Error, Limit: 64, Effect: "every request of the session is refused",
			Source: sourceClaudeNames, Date: "2026-01-24"},
		{Client: "claude-code", Rule: "description-length", Level: Error, Limit: 2048, Effect: "the rest is cut without a word",
			Source: "https://github.com/anthropics/claude-code/issues/87650", Date: "2026-08-18"},
		{Client: "claude-code", Rule: "recursive-ref", Level: Error, Where: outputSchemas, Effect: effectServer,
			Source: "https://github.com/anthropics/claude-code/issues/77106", Date: "2026-07-13"},
		{Client: "claude-code", Rule: "root-combinator", Level: Error, Where: inputSchemas, Words: []string{"allOf", "anyOf", "oneOf"},
			Effect: effectRequest, Source: sourceClaudeCombinator, Date: "2026-02-21"},
		{Client: "claude-code", Rule: "property-name", Level: Error, Where: inputSchemas, Pattern: `^[a-zA-Z0-9_.-]{1,64}$`, Effect: effectClaudeProperties,
			Source: "https://github.com/anthropics/claude-code/issues/92648", Date: "2026-09-07"},
		{Client: "claude-code", Rule: "bound-size", Level: Error, Where: inputSchemas, Words: boundWords(), Effect: effectRequest, Source: sourceBounds, Date: "2026-06-20"},
		{Client: "claude-desktop", Rule: "name-length", Level: Error, Limit: 64, Effect: effectRequest, Source: sourceClaudeNames, Date: "2026-01-24"},
		{Client: "claude-desktop", Rule: "name-pattern", Level: Error, Pattern: `^[a-zA-Z0-9_-]+$`, Effect: effectRequest,
			Source: "https://github.com/github/copilot-cli/issues/1879", Date: "2026-03-06"},
		{Client: "claude-desktop", Rule: "root-combinator", Level: Error, Where: inputSchemas, Words: []string{"allOf", "anyOf", "oneOf"},
			Effect: effectRequest, Source: sourceClaudeCombinator, Date: "2026-02-21"},
		{Client: "claude-desktop", Rule: "bound-size", Level: Error, Where: inputSchemas, Words: boundWords(), Effect: effectRequest, Source: sourceBounds, Date: "2026-06-20"},
		{Client: "claude-desktop", Rule: "property-name", Level: Error, Where: inputSchemas, Pattern: `^[a-zA-Z0-9_.-]{1,64}$`, Effect: effectRequest,
			Source: sourceClaudeProperties, Date: "2026-03-31"},
	}
}

func editorFacts() []lintFact {
	return []lintFact{
		{Client: "cursor", Rule: "tool-count", Level: Error, Limit: 80, Effect: "the rest is not offered to the model", Source: sourceCursorTools, Date: readOn},
		{Client: "cursor", Rule: "tool-count-advised", Level: Warning, Limit: 40, Effect: "models choose worse; older versions drop the rest",
			Source: "https://mcptrove.com/blog/cursor-tool-limit-math", Date: "2026-06-17"},
		{Client: "cursor", Rule: "name-length", Level: Error, Limit: 60, Effect: "the tool is not offered", Source: sourceCursorTools, Date: readOn},
		{Client: "vscode", Rule: "tool-count", Level: Error, Limit: 128, Effect: effectRequest, Source: sourceVSCodeTools, Date: "2026-09-23"},
		{Client: "vscode", Rule: "array-items", Level: Error, Where: inputSchemas, Effect: effectTool, Source: sourceVSCodeItems, Date: "2025-04-08"},
		{Client: "typescript-sdk", Rule: "ref", Level: Warning, Where: allSchemas, Effect: "some versions cannot resolve it, and drop all tools of the server",
			Source: "https://github.com/google-gemini/gemini-cli/issues/13142", Date: "2025-11-15"},
	}
}

func openAIFacts() []lintFact {
	return []lintFact{
		{Client: "openai", Rule: "tool-count", Level: Error, Limit: 128, Effect: effectRequest, Source: sourceVSCodeTools, Date: "2026-09-23"},
		{Client: "openai", Rule: "name-length", Level: Error, Limit: 64, Effect: effectRequest, Source: sourceOpenAIFunctions, Date: readOn},
		{Client: "openai", Rule: "name-pattern", Level: Error, Pattern: `^[a-zA-Z0-9_-]+$`, Effect: effectRequest, Source: sourceOpenAIFunctions, Date: readOn},
		{Client: "openai", Rule: "description-length", Level: Warning, Limit: 1024, Effect: "some deployments refuse the request",
			Source: "https://github.com/getsentry/sentry-mcp/issues/106", Date: "2025-04-25"},
		{Client: "openai", Rule: "root-type", Level: Error, Where: inputSchemas, Effect: effectRequest, Source: "https://github.com/vercel/ai/issues/1485", Date: "2024-05-06"},
		{Client: "openai", Rule: "root-properties", Level: Error, Where: inputSchemas, Effect: effectRequest, Source: sourceOpenAIFunctions, Date: readOn},
		{Client: "openai", Rule: "root-combinator", Level: Error, Where: inputSchemas, Words: []string{"allOf", "anyOf", "enum", "not", "oneOf"}, Effect: effectRequest,
			Source: sourceOpenAIFunctions, Date: readOn},
		{Client: "openai", Rule: "array-items", Level: Error, Where: inputSchemas, Effect: effectRequest, Source: sourceOpenAIItems, Date: "2026-03-03"},
		{Client: "openai-strict", Rule: "required-all", Level: Error, Where: inputSchemas, Effect: effectRequest, Source: sourceOpenAIStrict, Date: readOn},
		{Client: "openai-strict", Rule: "closed-objects", Level: Error, Where: inputSchemas, Effect: effectRequest, Source: sourceOpenAIStrict, Date: readOn},
		{Client: "openai-strict", Rule: "property-count", Level: Error, Where: inputSchemas, Limit: 5000, Effect: effectRequest, Source: sourceOpenAIStrict, Date: readOn},
		{Client: "openai-strict", Rule: "enum-size", Level: Error, Where: inputSchemas, Limit: 1000, Effect: effectRequest, Source: sourceOpenAIStrict, Date: readOn},
		{Client: "openai-strict", Rule: "enum-text", Level: Error, Where: inputSchemas, Limit: 15_000, Effect: effectRequest, Source: sourceOpenAIStrict, Date: readOn},
		{Client: "openai-strict", Rule: "schema-text", Level: Error, Where: inputSchemas, Limit: 120_000, Effect: effectRequest, Source: sourceOpenAIStrict, Date: readOn},
		{Client: "openai-strict", Rule: "depth", Level: Error, Where: inputSchemas, Limit: 10, Effect: effectRequest, Source: sourceOpenAIStrict, Date: readOn},
		{Client: "openai-strict", Rule: "keyword", Level: Error, Where: inputSchemas, Effect: effectRequest, Source: sourceOpenAIStrict, Date: readOn,
			Words: []string{"allOf", "dependentRequired", "dependentSchemas", "else", "if", "not", "oneOf", "patternProperties", "propertyNames", "then"}},
	}
}

func geminiFacts() []lintFact {
	return []lintFact{
		{Client: "gemini", Rule: "name-length", Level: Error, Limit: 64, Effect: effectRequest, Source: "https://ai.google.dev/api/caching#FunctionDeclaration", Date: readOn},
		{Client: "gemini", Rule: "ref", Level: Error, Where: allSchemas, Effect: effectRequest, Source: "https://github.com/anomalyco/opencode/issues/12295", Date: "2026-02-05"},
		{Client: "gemini", Rule: "type-list", Level: Error, Where: allSchemas, Effect: effectRequest, Source: sourceGeminiSchema, Date: readOn},
		{Client: "gemini", Rule: "keyword", Level: Error, Where: allSchemas, Effect: effectRequest, Source: "https://github.com/pizza-bot-app/pizza-bot/issues/62", Date: "2026-09-07",
			Words: []string{"$schema", "allOf", "const", "contentEncoding", "dependentRequired", "dependentSchemas", "deprecated", "else", "examples", "exclusiveMaximum",
				"exclusiveMinimum", "if", "multipleOf", "not", "oneOf", "patternProperties", "propertyNames", "then", "uniqueItems"}},
		{Client: "gemini", Rule: "empty-object", Level: Error, Where: inputSchemas, Effect: effectRequest, Source: "https://github.com/agno-agi/agno/issues/2112", Date: "2025-02-13"},
		{Client: "gemini", Rule: "enum-type", Level: Error, Where: allSchemas, Effect: effectRequest, Source: "https://github.com/microsoft/azure-devops-mcp/issues/145", Date: readOn},
		{Client: "gemini", Rule: "format", Level: Error, Where: allSchemas, Words: []string{"date-time", "enum"}, Effect: effectRequest, Source: sourceGeminiFormats, Date: "2025-08-03"},
		{Client: "gemini-cli", Rule: "name-length", Level: Error, Limit: 64, Effect: "the middle of the name is cut",
			Source: "https://zuplo.com/learn/mcp/compatibility/clients/gemini-cli.md", Date: "2026-07-31"},
		{Client: "gemini-cli", Rule: "ref", Level: Warning, Where: allSchemas, Effect: "some versions cannot resolve it, and drop all tools of the server",
			Source: "https://github.com/google-gemini/gemini-cli/issues/13326", Date: "2025-11-18"},
		{Client: "gemini-cli", Rule: "enum-type", Level: Error, Where: inputSchemas, Effect: effectRequest, Source: "https://github.com/microsoft/azure-devops-mcp/issues/139", Date: readOn},
	}
}

// everyFacts hold for every client: what the specification asks for, and what a model chooses by.
func everyFacts() []lintFact {
	facts := []lintFact{
		{Rule: "name-length", Level: Error, Limit: 128, Effect: "the specification allows no more", Source: sourceToolNames, Date: readOn},
		{Rule: "name-unique", Level: Error, Effect: "one of them cannot be called", Source: sourceToolNames, Date: readOn},
		{Rule: "root-type", Level: Error, Where: inputSchemas, Effect: effectTool, Source: sourceMCPTools, Date: readOn},
		{Rule: "dangling-ref", Level: Error, Where: allSchemas, Effect: effectServer, Source: "https://github.com/google-labs-code/stitch-sdk/issues/367", Date: "2026-08-10"},
		{Rule: "bound-size", Level: Warning, Where: allSchemas, Words: boundWords(), Effect: "some clients refuse the request, and others round it",
			Source: sourceBounds, Date: "2026-06-20"},
		{Rule: "hints-conflict", Level: Warning, Effect: "clients disagree on whether to ask the user", Source: sourceMCPTools, Date: readOn},
	}
	for _, own := range []lintFact{
		{Rule: "tool-tokens", Level: Warning, Limit: 5_000, Effect: "a model pays for it with each request"},
		{Rule: "list-tokens", Level: Warning, Limit: 25_000, Effect: "a model pays for it with each request"},
		{Rule: "name-similar", Level: Warning, Effect: "models confuse them"},
		{Rule: "description-missing", Level: Warning, Effect: "a model knows the tool by its name alone"},
		{Rule: "description-same", Level: Warning, Effect: "a model cannot choose between them"},
		{Rule: "description-short", Level: Note, Limit: 20, Effect: "a model learns little from it"},
		{Rule: "title-missing", Level: Note, Effect: "people see the name"},
		{Rule: "property-description", Level: Note, Where: inputSchemas, Effect: "a model guesses what they mean"},
		{Rule: "hint-not-destructive", Level: Warning, Effect: "clients may run it without asking, and the gate does not hold it"},
		{Rule: "hint-not-read-only", Level: Warning, Effect: "clients may run it without asking"},
		{Rule: "hint-destructive", Level: Warning, Effect: "users are asked for nothing, and the gate holds it"},
		{Rule: "hint-missing", Level: Note, Effect: "clients ask the user each time"},
	} {
		own.Source, own.Date = sourceOwn, readOn
		facts = append(facts, own)
	}
	return facts
}
