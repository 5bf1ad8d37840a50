// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/errmap"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/report"
)

const (
	// usualPage and maxPage bound a page of tools.
	usualPage, maxPage = 50, 1000
	// maxQuery is the maximum size of a query in bytes.
	maxQuery = 1000
	// maxSummary bounds the text of a tool in a list, in bytes.
	maxSummary = 300
)

// SearchTools implements AdminService.
func (s *Service) SearchTools(ctx context.Context, req *connect.Request[adminv1.SearchToolsRequest]) (*connect.Response[adminv1.SearchToolsResponse], error) {
	cat, err := s.catalog(ctx)
	if err != nil {
		return nil, err
	}
	if len(req.Msg.GetQuery()) > maxQuery {
		return nil, refused(errmap.InvalidParams, fmt.Sprintf("Invalid parameters: the query is longer than %d bytes", maxQuery))
	}
	size := int(req.Msg.GetPageSize())
	if size <= 0 {
		size = usualPage
	}
	size = min(size, maxPage)
	from, err := pageStart(req.Msg.GetPageToken(), cat)
	if err != nil {
		return nil, err
	}
	all := cat.Tools()
	if strings.TrimSpace(req.Msg.GetQuery()) != "" {
		all = s.index.Of(cat).Search(req.Msg.GetQuery(), min(from+size+1, len(all)), nil)
	}
	from = min(from, len(all))
	to := min(from+size, len(all))
	out := &adminv1.SearchToolsResponse{Total: int32(min(len(cat.Tools()), 1<<30))}
	for _, t := range all[from:to] {
		out.Tools = append(out.Tools, summary(t))
	}
	if to < len(all) {
		out.NextPageToken = pageToken(to, cat)
	}
	return connect.NewResponse(out), nil
}

// pageToken says where a page begins, in one catalog.
func pageToken(from int, cat *catalog.Catalog) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(from) + " " + cat.Fingerprint()))
}

// pageStart reads a token. One of another catalog is refused, because pages of two would repeat tools or leave some out.
func pageStart(token string, cat *catalog.Catalog) (int, error) {
	if token == "" {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	number, fingerprint, _ := strings.Cut(string(text), " ")
	from, failed := strconv.Atoi(number)
	switch {
	case err != nil, failed != nil, from < 0:
		return 0, refused(errmap.InvalidParams, "Invalid parameters: page_token is not one that SearchTools returned")
	case fingerprint != cat.Fingerprint():
		return 0, refused(errmap.InvalidParams, "Invalid parameters: the catalog has changed since the previous page; begin with the first page")
	}
	return from, nil
}

// summary is a tool in a list.
func summary(t *catalog.Tool) *adminv1.ToolSummary {
	return &adminv1.ToolSummary{
		Name: t.Name, McpName: t.MCPName, Title: clip(t.Title, maxSummary), Summary: clip(firstSentence(t.Description), maxSummary),
		Destructive: t.Annotations.Destructive != nil && *t.Annotations.Destructive,
		ReadOnly:    t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly,
		Backend:     t.Method.Backend,
	}
}

// firstSentence is the first paragraph of a text, or the first sentence of that.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
	text = strings.Join(strings.Fields(clip(text, 4*maxSummary)), " ")
	if at := strings.Index(text, ". "); at >= 0 {
		return text[:at+1]
	}
	return text
}

// clip cuts a text to a number of bytes, between characters.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// catalog is the current catalog, with all tools. It does not wait for the first one: requests that wait would keep others out, which
// show why there is none.
func (s *Service) catalog(ctx context.Context) (*catalog.Catalog, error) {
	if cat := s.opts.Bridge.CatalogFor(ctx); cat != nil {
		return cat, nil
	}
	return nil, refused(errmap.Unavailable, "Unavailable: the tool catalog has not been loaded yet; the checks in Live say why")
}

// tool finds a tool by one of its names.
func (s *Service) tool(ctx context.Context, name string) (*catalog.Catalog, *catalog.Tool, error) {
	cat, err := s.catalog(ctx)
	if err != nil {
		return nil, nil, err
	}
	t, ok := cat.Lookup(name)
	if !ok {
		return nil, nil, errmap.ToConnect(errmap.New(errmap.ToolNotFound, errmap.Tool(clip(name, maxSummary))), errmap.About{})
	}
	return cat, t, nil
}

// GetTool implements AdminService.
func (s *Service) GetTool(ctx context.Context, req *connect.Request[adminv1.GetToolRequest]) (*connect.Response[adminv1.GetToolResponse], error) {
	cat, t, err := s.tool(ctx, req.Msg.GetName())
	if err != nil {
		return nil, err
	}
	listed := dialect.ListedToolJSON(t, cat.ListForm())
	out := &adminv1.GetToolResponse{
		Tool: summary(t), Description: t.Description,
		Listed:      map[string]string{"mcp": string(listed), "rpc": string(dialect.ToolJSON(t))},
		InputSchema: string(t.Input.Advertised()),
		ListTokens:  int32(min(s.opts.Lists.Last().Tokens, 1<<30)),
		IsGated:     s.opts.IsGated(t), Version: t.Version, Fingerprint: t.Fingerprint(),
		TakesStream: t.TakesStream(), Streams: t.Streams(),
	}
	out.Tool.Title = t.Title
	if t.HasOutput() {
		out.OutputSchema = string(t.Output.Advertised())
	}
	if since := t.Metadata.DeprecatedIn; since != "" {
		out.Deprecated = "deprecated in " + since
	}
	if !t.Native {
		out.Rpc, out.Kind = strings.TrimPrefix(t.Method.Procedure, "/"), rpcKind(t)
	}
	_, out.RunsAsTask = t.RunsOn(s.opts.RunsOn)
	if err := judge(out, listed, t); err != nil {
		return nil, errmap.ToConnect(errmap.Wrap(errmap.InternalError, err), errmap.About{})
	}
	out.Changes = s.changed.of(t.Name, listed)
	return connect.NewResponse(out), nil
}

// rpcKind is the kind of an RPC in words.
func rpcKind(t *catalog.Tool) string {
	switch {
	case t.TakesStream() && t.Streams():
		return "bidirectional stream"
	case t.TakesStream():
		return "client stream"
	case t.Streams():
		return "server stream"
	}
	return "unary"
}

// judge adds what `sidecar lint` finds in a tool, and what it costs.
func judge(out *adminv1.GetToolResponse, listed []byte, t *catalog.Tool) error {
	one, err := report.ReadTools(listed, report.DiffLimits{})
	if err != nil {
		return fmt.Errorf("read the tool as it is listed: %w", err)
	}
	method := ""
	if !t.Native && !t.Registered {
		method = strings.TrimPrefix(t.Method.Procedure, "/")
	}
	tool, err := report.NewLintTool(one[0], method)
	if err != nil {
		return err
	}
	tool.OwnInput = t.Declared != nil && t.Declared.Input != nil
	found, err := report.Lint([]*report.LintTool{tool}, report.LintOptions{})
	if err != nil {
		return err
	}
	out.Tokens = int32(min(tool.Tokens, 1<<30))
	for _, f := range found.Findings {
		if f.Tool == "" {
			continue // of the list
		}
		text, rule := f.Fix.Text, f.Rule
		if f.Fix.Overlay != "" {
			text += "\n" + f.Fix.Overlay
		}
		if f.Client != "" {
			rule += " (" + f.Client + ")"
		}
		out.Findings = append(out.Findings, &adminv1.Finding{Rule: rule, Level: f.Level.String(), Path: f.Path, Message: f.Message, Fix: text})
	}
	return nil
}

// CheckArguments implements AdminService.
func (s *Service) CheckArguments(ctx context.Context, req *connect.Request[adminv1.CheckArgumentsRequest]) (*connect.Response[adminv1.CheckArgumentsResponse], error) {
	_, t, err := s.tool(ctx, req.Msg.GetTool())
	if err != nil {
		return nil, err
	}
	text := []byte(req.Msg.GetArguments())
	if fault := jsonrpc.Check(text, s.opts.JSON); fault != nil {
		return connect.NewResponse(&adminv1.CheckArgumentsResponse{
			Code: string(errmap.InvalidToolInput), Message: fault.Error(), Violations: []*adminv1.Violation{{Keyword: "json", Message: fault.Error()}},
		}), nil
	}
	failed := s.opts.Bridge.CheckArguments(ctx, t, text)
	if failed == nil {
		return connect.NewResponse(&adminv1.CheckArgumentsResponse{}), nil
	}
	out := &adminv1.CheckArgumentsResponse{Code: string(failed.Code), Message: failed.Described()}
	for _, v := range failed.Violations {
		out.Violations = append(out.Violations, &adminv1.Violation{Path: v.Path, Keyword: v.Keyword, Message: v.Message})
	}
	return connect.NewResponse(out), nil
}

const (
	// maxChanged is for how many tools the form before the newest change is kept, and maxChangedBytes for how large ones.
	maxChanged, maxChangedBytes = 200, 64 << 10
)

// changes are the tools that the newest change of the catalog changed, as they were before. The zero value is ready.
type changes struct {
	mu sync.Mutex
	// before has what a list showed of a tool, nil for one that was added.
	before map[string][]byte
}

// note keeps what a change replaces.
func (c *changes) note(old, now *catalog.Catalog) {
	if old == nil {
		return
	}
	change := now.Since(old)
	if len(change.Added)+len(change.Changed)+len(change.Removed) == 0 {
		return // of resources alone
	}
	before := map[string][]byte{}
	keep := func(name string, listed []byte) {
		if len(before) < maxChanged && len(listed) <= maxChangedBytes {
			before[name] = listed
		}
	}
	for _, t := range change.Changed {
		if was, ok := old.Lookup(t.Name); ok && len(before) < maxChanged {
			keep(t.Name, slices.Clone(dialect.ListedToolJSON(was, old.ListForm())))
		}
	}
	for _, t := range change.Added {
		keep(t.Name, nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = before
}

// of says how a tool differs from the previous catalog.
func (c *changes) of(name string, now []byte) []string {
	c.mu.Lock()
	was, isChanged := c.before[name]
	c.mu.Unlock()
	if !isChanged {
		return nil
	}
	if was == nil {
		return []string{"the tool is new in this catalog"}
	}
	before, err := report.ReadTools(was, report.DiffLimits{})
	after, failed := report.ReadTools(now, report.DiffLimits{})
	if err != nil || failed != nil {
		return []string{"the tool has changed"}
	}
	var out []string
	for _, one := range report.Compare(before, after, report.DiffLimits{}).Changes {
		text := one.Message
		if where := one.Where(); where != "" {
			text = where + ": " + text
		}
		if one.Breaking {
			text += " (breaking)"
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return []string{"the tool has changed in what lists do not compare"}
	}
	return out
}
