// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/content/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

func newPolicyTestCommand(env environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Run a table of calls against the rules",
		Long: `Test decides each call of a YAML file by the rules and compares the decision with the
expected one. It calls no tool. Only the rules decide: neither the grants of the
callers file nor --trust count. An example of the file:

  cases:
    - name: small refunds are allowed
      caller: {name: planner, groups: [refunds]}
      tool: shop.refund
      arguments: {amount: {units: 20}}
      expected: allow
      rule: refund-limit
    - name: support sees no email
      caller: {name: anna, groups: [support]}
      tool: shop.get_customer
      result: {name: Ann, email: ann@example.com}
      shown: {name: Ann}

Only tool and expected are required, or tool and result. With result, the case is
about what the caller sees of it; without shown, the policy must deny it. Without
caller, the caller is not authenticated.

Exit codes: 0 all as expected, 1 differences, 2 invalid rules or cases,
3 the tools cannot be loaded.`,
		Example: `  sidecar policy test cases.yaml --policy policy.yaml --descriptors api.binpb
  sidecar policy test cases.yaml --policy policy.yaml --backend http://127.0.0.1:50051 --json`,
		Args: between(1, 1),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON: {"ok", "cases": [{"name", "tool", "expected", "decision", "rule", "shown", "ok"}]}`)
	config.RegisterFlags(cmd.Flags(), config.Once)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return env.withRules(cmd, func(set *policy.Set, cat *catalog.Catalog) error { return env.testRules(args[0], set, cat, asJSON) })
	}
	return cmd
}

// caseReport is the outcome of a case.
type caseReport struct {
	Name     string `json:"name"`
	Tool     string `json:"tool"`
	Expected string `json:"expected"`
	// WantRule is the rule that the file asks for.
	WantRule string `json:"expected_rule,omitempty"`
	Decision string `json:"decision"`
	Rule     string `json:"rule,omitempty"`
	// Shown is what the caller sees of the result of the case, and WantShown what it must see.
	Shown     json.RawMessage `json:"shown,omitempty"`
	WantShown json.RawMessage `json:"expected_shown,omitempty"`
	OK        bool            `json:"ok"`
}

// testRules runs the cases, and fails where a decision is not the expected one.
func (env environment) testRules(path string, set *policy.Set, cat *catalog.Catalog, asJSON bool) error {
	calls := map[int]policyCall{}
	file, err := config.LoadPolicyTests(path, func(tests *configv1.PolicyTests, report func(path, message string)) {
		for i, c := range tests.GetCases() {
			calls[i] = newPolicyCall(fmt.Sprintf("cases[%d].", i), c, set, cat, report)
		}
	})
	if err != nil {
		return err
	}
	engine := policy.NewEngine(set)
	engine.Fit(cat)
	engine.UseSecret(func() []byte { return []byte("sidecar policy test") }) // so that digests can be expected
	reports, differences := make([]caseReport, 0, len(calls)), 0
	for i, c := range file.GetCases() {
		call := calls[i]
		report := caseReport{Name: c.GetName(), Tool: call.tool.Name, OK: true}
		if c.GetExpected() != "" {
			report = call.decide(engine, c)
		}
		if call.result != nil {
			if err := call.show(engine, &report); err != nil {
				return fmt.Errorf("case %d: %w", i+1, err)
			}
		}
		if report.Name == "" {
			report.Name = "case " + strconv.Itoa(i+1)
		}
		if !report.OK {
			differences++
		}
		reports = append(reports, report)
	}
	if asJSON {
		err = printJSON(env.stdout, struct {
			OK    bool         `json:"ok"`
			Cases []caseReport `json:"cases"`
		}{differences == 0, reports})
	} else {
		for _, r := range reports {
			r.print(env)
		}
		_, err = fmt.Fprintf(env.stdout, "%d of %d cases as expected\n", len(reports)-differences, len(reports))
	}
	if err != nil {
		return err
	}
	if differences > 0 {
		return exitWith(exitToolFailed)
	}
	return nil
}

// policyCall is a case as a call.
type policyCall struct {
	who       *identity.Identity
	tool      *catalog.Tool
	arguments []byte // as the rules get them
	// messages stand for the arguments of a tool that takes a stream: the rules are asked about each.
	messages [][]byte
	// result and shown are those of the case, as JSON; nil for none.
	result, shown *resultCase
}

// newPolicyCall makes the call of a case, and reports what is wrong with it.
func newPolicyCall(at string, c *configv1.PolicyCase, set *policy.Set, cat *catalog.Catalog, report func(path, message string)) policyCall {
	call := policyCall{who: policyCaller(c.GetCaller())}
	if c.GetRule() != "" && !set.Has(c.GetRule()) {
		report(at+"rule", "there is no rule "+c.GetRule())
	}
	var ok bool
	if call.tool, ok = cat.Lookup(c.GetTool()); !ok {
		if c.GetTool() != "" {
			report(at+"tool", unknownTool(cat, c.GetTool()).Error())
		}
		return call
	}
	raw := []byte("{}")
	if c.GetArguments() != nil {
		var err error
		if raw, err = protojson.Marshal(c.GetArguments()); err != nil {
			report(at+"arguments", err.Error())
			return call
		}
	}
	if c.GetExpected() != "" || c.GetArguments() != nil {
		if err := call.encode(raw); err != nil {
			report(at+"arguments", "are not valid: "+err.Error())
		}
	}
	call.result = newResultCase(c.GetResult(), call.tool, cat, func(message string) { report(at+"result", message) })
	call.shown = newResultCase(c.GetShown(), call.tool, cat, func(message string) { report(at+"shown", message) })
	return call
}

// resultCase is a result of a tool: JSON, and the message where the tool is an RPC.
type resultCase struct {
	json    []byte
	message *dynamicpb.Message
	types   *catalog.Types
}

// newResultCase reads a result; nil for none.
func newResultCase(of *structpb.Struct, t *catalog.Tool, cat *catalog.Catalog, report func(message string)) *resultCase {
	if of == nil {
		return nil
	}
	raw, err := protojson.Marshal(of)
	if err != nil {
		report(err.Error())
		return nil
	}
	out := &resultCase{json: raw, types: cat.Types()}
	if t.Native {
		return out
	}
	md := t.Method.Descriptor.Output()
	if op := t.Operation; op != nil && op.Response != nil && op.Response.Out != nil {
		md = op.Response.Out.Descriptor()
	}
	out.message = dynamicpb.NewMessage(md)
	if err := (protojson.UnmarshalOptions{Resolver: out.types}).Unmarshal(raw, out.message); err != nil {
		report("is no " + string(md.FullName()) + ": " + err.Error())
		return nil
	}
	return out
}

// seenBy is what a view leaves of the result; nil where it is denied.
func (r *resultCase) seenBy(v *policy.View) (*resultCase, error) {
	if r.message == nil {
		left, refused := v.ApplyJSON(r.json)
		if refused != nil {
			return nil, denied(refused)
		}
		return &resultCase{json: left}, nil
	}
	wire, err := proto.Marshal(r.message)
	if err != nil {
		return nil, err
	}
	left, refused := v.Apply(r.message.Descriptor(), wire)
	if refused != nil {
		return nil, denied(refused)
	}
	out := &resultCase{message: dynamicpb.NewMessage(r.message.Descriptor()), types: r.types}
	if err := (proto.UnmarshalOptions{Resolver: r.types}).Unmarshal(left, out.message); err != nil {
		return nil, err
	}
	out.json, err = protojson.MarshalOptions{Resolver: r.types}.Marshal(out.message)
	return out, err
}

// denied is nil for a result that the policy denies, and an error for one that it cannot read.
func denied(refused *errmap.Error) error {
	if refused.Code == errmap.PermissionDenied {
		return nil
	}
	return refused
}

// equals compares results: messages as such, so that spelling and order do not matter.
func (r *resultCase) equals(other *resultCase) bool {
	if r == nil || other == nil {
		return r == other
	}
	if r.message != nil {
		return proto.Equal(r.message, other.message)
	}
	var a, b any
	return json.Unmarshal(r.json, &a) == nil && json.Unmarshal(other.json, &b) == nil && reflect.DeepEqual(a, b)
}

// text is the JSON in its compact form; nil for none.
func (r *resultCase) text() json.RawMessage {
	var out bytes.Buffer
	if r == nil || json.Compact(&out, r.json) != nil {
		return nil
	}
	return out.Bytes()
}

// show decides what the caller sees of the result, and adds it to a report.
func (c *policyCall) show(engine *policy.Engine, r *caseReport) error {
	left, err := c.result.seenBy(engine.View(c.who, c.tool))
	if err != nil {
		return err
	}
	r.Shown, r.WantShown = left.text(), c.shown.text()
	r.OK = r.OK && left.equals(c.shown)
	return nil
}

// encode checks arguments as a call would.
func (c *policyCall) encode(raw []byte) error {
	found, err := c.tool.CheckArguments(context.Background(), raw)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("%s: %s", found[0].Path, found[0].Message)
	}
	if c.arguments = raw; c.tool.Native {
		return nil
	}
	if c.tool.TakesStream() {
		c.messages, err = streamMessages(c.tool, raw)
		return err
	}
	c.arguments, err = c.tool.In.ToWireWith(context.Background(), &bytepool.Pool{}, nil, raw)
	return err
}

// streamMessages are the messages that a call of a tool sends that takes a stream; one empty message where it sends none, as
// the rules are asked then.
func streamMessages(t *catalog.Tool, raw []byte) (out [][]byte, err error) {
	header, items, err := t.Stream.Split(raw, defaults.MaxInputItems)
	if err != nil {
		return nil, err
	}
	if header != nil {
		wire, err := t.Stream.HeaderToWire(context.Background(), nil, header)
		if err != nil {
			return nil, err
		}
		out = append(out, wire)
	}
	for i, item := range items {
		wire, err := t.Stream.ItemToWire(context.Background(), &bytepool.Pool{}, nil, i, item)
		if err != nil {
			return nil, err
		}
		out = append(out, wire)
	}
	if len(out) == 0 {
		out = [][]byte{nil}
	}
	return out, nil
}

// policyCaller is the identity of a case's caller; nil without one.
func policyCaller(c *configv1.PolicyCaller) *identity.Identity {
	if c == nil {
		return nil
	}
	source := identity.Source(cmp.Or(c.GetSource(), string(identity.SourceTokens)))
	name := c.GetName()
	if name == "" && source == identity.SourceOAuth {
		name = c.GetIssuer() + "#" + c.GetSubject()
	}
	return identity.NewIdentityOf(identity.Grant{Name: name, Tools: []string{"*"}}, identity.Facts{
		Source: source, Issuer: c.GetIssuer(), Subject: c.GetSubject(), ClientID: c.GetClientId(),
		Groups: c.GetGroups(), Scopes: c.GetScopes(), Claims: c.GetClaims().AsMap(),
	})
}

// decide asks the rules.
func (c *policyCall) decide(engine *policy.Engine, of *configv1.PolicyCase) caseReport {
	messages := c.messages
	if messages == nil {
		messages = [][]byte{c.arguments}
	}
	var rule string
	var refused *errmap.Error
	for i, message := range messages { // the first one decides, or the one that is refused
		decided, _, err := engine.MayCall(c.who, c.tool, message)
		if i == 0 || err != nil {
			rule, refused = decided, err
		}
		if err != nil {
			break
		}
	}
	r := caseReport{
		Name: of.GetName(), Tool: c.tool.Name, Expected: of.GetExpected(), WantRule: of.GetRule(),
		Decision: string(policy.Allow), Rule: rule,
	}
	if refused != nil {
		r.Decision = string(policy.Deny)
	}
	r.OK = r.Decision == r.Expected && (r.WantRule == "" || r.WantRule == r.Rule)
	return r
}

func (r *caseReport) print(env environment) {
	by := func(decision, rule string) string {
		if rule == "" {
			return decision
		}
		return decision + " by " + rule
	}
	shown := func(decision string, text json.RawMessage) string {
		switch {
		case r.Shown == nil && r.WantShown == nil && r.Expected != "":
			return decision
		case text == nil:
			text = json.RawMessage("nothing")
		}
		return strings.TrimPrefix(decision+", shown "+string(text), ", ")
	}
	if r.OK {
		fmt.Fprintf(env.stdout, "ok    %s: %s: %s\n", r.Name, r.Tool, shown(by(r.Decision, r.Rule), r.Shown))
		return
	}
	fmt.Fprintf(env.stdout, "FAIL  %s: %s: want %s, is %s\n", r.Name, r.Tool, shown(by(r.Expected, r.WantRule), r.WantShown), shown(by(r.Decision, r.Rule), r.Shown))
}
