// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1/adminv1connect"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	// approvalsTimeout is how long the sidecar may take to answer.
	approvalsTimeout = 10 * time.Second
	// approvalsPause is the time between two looks of `sidecar approvals list --watch`.
	approvalsPause = 2 * time.Second
	// maxReason is what the sidecar takes at most.
	maxReason = 1024
)

// newApprovalsCommand is the group of commands about calls that wait for approval.
func newApprovalsCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List, show, approve or deny calls that wait for approval",
		Long: `Approvals is about calls that a policy rule with the effect "approve" holds until
operators decide. It asks the admin listener of a running sidecar, on this machine or
another one. The listener needs the token of an operator where it has operators
(--token-file): the role read lists and shows, the role operate decides, if the rule
names the operator or one of its groups. A requester never approves its own call, each
operator decides once, and one that denies is enough.

An ID may be shortened, as long as it is the beginning of one alone.`,
		Example: `  sidecar approvals list
  sidecar approvals show 7f3a
  sidecar approvals approve 7f3a --reason "ticket 4711"
  sidecar approvals deny 7f3a --reason "the wrong customer"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("no command %q: want list, show, approve or deny", args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return usageError("which command? list, show, approve or deny") },
	}
	for _, inner := range []*cobra.Command{
		newApprovalsListCommand(env), newApprovalsShowCommand(env),
		newDecisionCommand(env, true, `Approve agrees that a call may run. It runs once as many operators have agreed as its
rule wants; its requester gets the result. A reason is required: it goes to the audit
trail, and the requester may see it.`),
		newDecisionCommand(env, false, `Deny ends a call that waits: it never runs, whatever others decided. Its requester
gets PERMISSION_DENIED with the reason, which also goes to the audit trail.`),
	} {
		inner.Args = asUsageError(inner.Args)
		cmd.AddCommand(inner)
	}
	return cmd
}

// approvalDesk asks a sidecar about approvals.
type approvalDesk struct {
	*adminClient
	api adminv1connect.AdminServiceClient
}

// open makes the desk of an admin listener.
func (f *adminFlags) openApprovals() (approvalDesk, error) {
	client, err := f.open()
	if err != nil {
		return approvalDesk{}, err
	}
	return approvalDesk{client, adminv1connect.NewAdminServiceClient(client.client, client.base.String(), connect.WithReadMaxBytes(maxStatusAnswer))}, nil
}

// failed is an error with the exit code of its canonical code, where the sidecar gave one.
func (d approvalDesk) failed(err error) error {
	if told := new(connect.Error); errors.As(err, &told) && len(told.Details()) > 0 {
		canonical := errmap.FromConnect(told)
		return &exitError{code: exitOf(canonical.Code), text: cellOf(told.Message())}
	}
	return &exitError{code: exitRefused, text: "approvals of " + d.name + ": " + d.explain(err)}
}

// list returns the approvals.
func (d approvalDesk) list(ctx context.Context, decided bool) ([]*adminv1.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, approvalsTimeout)
	defer cancel()
	out, err := d.api.ListApprovals(ctx, signed(d.adminClient, &adminv1.ListApprovalsRequest{Decided: decided}))
	if err != nil {
		return nil, err
	}
	return out.Msg.GetApprovals(), nil
}

// find returns the id that a text begins, or the text where there is none: the sidecar says so.
func (d approvalDesk) find(ctx context.Context, text string) (string, error) {
	if text == "" { // the beginning of any, as an unset variable would be
		return "", usageError("ID: is empty; `sidecar approvals list` shows the IDs")
	}
	all, err := d.list(ctx, true)
	if err != nil {
		return "", d.failed(err)
	}
	var found []string
	for _, a := range all {
		if a.GetId() == text {
			return text, nil
		}
		if strings.HasPrefix(a.GetId(), text) {
			found = append(found, a.GetId())
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", usageError(fmt.Sprintf("ID: %q is the beginning of %d approvals, such as %s and %s", text, len(found), cellOf(found[0]), cellOf(found[1])))
	}
	return text, nil
}

func newApprovalsListCommand(env environment) *cobra.Command {
	var at adminFlags
	var all, watch, asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the calls that wait for approval, the oldest first",
		Long: `List prints the calls that wait: ID, tool, requester, rule, how long they wait, in what
time they expire, and how many of the approvers that are needed agreed. It shows no
arguments; show does.

With --watch it goes on, and prints a line for each call that begins to wait or changes.
A sidecar that is away is asked again, until Ctrl-C.

Exit codes: 0 success, 2 invalid usage, 3 no answer, else that of the canonical code.`,
		Example: `  sidecar approvals list
  sidecar approvals list --admin https://pod.example:9901 --token-file token --ca ca.pem
  sidecar approvals list --watch --json`,
		Args: noArguments,
	}
	at.register(cmd, env)
	cmd.Flags().BoolVar(&all, "all", false, "also those that were decided, as long as the sidecar keeps them")
	cmd.Flags().BoolVar(&watch, "watch", false, "go on, and print what changes")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each as a line of JSON (outrigger.admin.v1.Approval)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d, err := at.openApprovals()
		if err != nil {
			return err
		}
		found, err := d.list(cmd.Context(), all)
		if err != nil {
			return d.failed(err)
		}
		if err := printApprovals(env.stdout, found, asJSON, true); err != nil || !watch {
			return err
		}
		return d.watch(cmd.Context(), env, found, asJSON)
	}
	return cmd
}

// watch prints what changes until ctx ends. A sidecar that is away may restart, and is asked again.
func (d approvalDesk) watch(ctx context.Context, env environment, shown []*adminv1.Approval, asJSON bool) error {
	known := map[string]*adminv1.Approval{}
	for _, a := range shown {
		known[a.GetId()] = a
	}
	isFirst, isAway := true, false
	for pause(ctx, approvalsPause) == nil {
		now, err := d.list(ctx, true)
		code := connect.CodeOf(err)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was ended, and has shown what there was
		case err != nil && code != connect.CodeUnavailable && code != connect.CodeDeadlineExceeded:
			return d.failed(err)
		case err != nil:
			if !isAway {
				fmt.Fprintf(env.stderr, "note: %v; asking again\n", d.failed(err))
			}
			isAway = true
			continue
		}
		isAway = false
		var changed []*adminv1.Approval
		after := map[string]*adminv1.Approval{}
		for _, a := range now {
			after[a.GetId()] = a
			before := known[a.GetId()]
			wasThere := before != nil || isFirst && a.GetState() != waiting // decided before this began
			if !wasThere || before != nil && (before.GetState() != a.GetState() || len(before.GetDecisions()) != len(a.GetDecisions())) {
				changed = append(changed, a)
			}
		}
		known, isFirst = after, false
		if err := printApprovals(env.stdout, changed, asJSON, false); err != nil {
			return err
		}
	}
	return nil
}

// waiting is the state of an approval that can be decided.
const waiting = "waiting"

// printApprovals prints a table, or lines of JSON.
func printApprovals(out io.Writer, all []*adminv1.Approval, asJSON, hasHead bool) error {
	if asJSON {
		for _, a := range all {
			if err := printMessage(out, a); err != nil {
				return err
			}
		}
		return nil
	}
	if hasHead && len(all) == 0 {
		_, err := fmt.Fprintln(out, "No call waits for approval.")
		return err
	}
	now := time.Now()
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	if hasHead {
		fmt.Fprintln(table, "ID\tTOOL\tREQUESTER\tRULE\tAGE\tEXPIRES\tAPPROVED\tSTATE")
	}
	for _, a := range all {
		expires := "-"
		if a.GetState() == waiting {
			expires = inTime(a.GetExpires().AsTime().Sub(now))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cellOf(a.GetId()), cellOf(a.GetTool()), cellOf(a.GetRequester()), cellOf(a.GetRule()),
			seconds(max(now.Sub(a.GetCreated().AsTime()), 0).Seconds()), expires, agreed(a), cellOf(a.GetState()))
	}
	return table.Flush()
}

// inTime is when something ends.
func inTime(left time.Duration) string {
	if left <= 0 {
		return "now"
	}
	return "in " + seconds(left.Seconds())
}

// agreed is how many approved of how many.
func agreed(a *adminv1.Approval) string {
	n := 0
	for _, d := range a.GetDecisions() {
		if d.GetApproved() {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, a.GetNeeded())
}

// printMessage prints a message as one line of JSON.
func printMessage(out io.Writer, m proto.Message) error {
	line, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return err
	}
	_, err = out.Write(append(jsontext.Visible(jsontext.Compact(nil, line), 0), '\n'))
	return err
}

func newApprovalsShowCommand(env environment) *cobra.Command {
	var at adminFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a call that waits: its arguments, its preview, who decided what",
		Long: `Show prints one call with its arguments, without what the operator may not see, and
with its preview where the tool has one. It says whether the operator may decide, and
if not, why.

Exit codes: 0 success, 2 invalid usage, 3 no answer, else that of the canonical code.`,
		Example: `  sidecar approvals show 7f3a
  sidecar approvals show 7f3a --json`,
		Args: between(1, 1),
	}
	at.register(cmd, env)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON (outrigger.admin.v1.Approval)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := at.openApprovals()
		if err != nil {
			return err
		}
		id, err := d.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), approvalsTimeout)
		defer cancel()
		out, err := d.api.GetApproval(ctx, signed(d.adminClient, &adminv1.GetApprovalRequest{Id: id}))
		if err != nil {
			return d.failed(err)
		}
		if asJSON {
			return printMessage(env.stdout, out.Msg.GetApproval())
		}
		return printApproval(env.stdout, out.Msg.GetApproval())
	}
	return cmd
}

// printApproval prints all of an approval.
func printApproval(out io.Writer, a *adminv1.Approval) error {
	now := time.Now()
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(table, "%s\t%s\n", name, value) }
	row("ID", cellOf(a.GetId()))
	row("Tool", cellOf(a.GetTool()))
	if a.GetTitle() != "" {
		row("Title", cellOf(a.GetTitle()))
	}
	row("Requester", cellOf(a.GetRequester()))
	row("Rule", cellOf(a.GetRule()))
	state := cellOf(a.GetState())
	if a.GetEnded() != "" {
		state += ": " + cellOf(a.GetEnded())
	}
	row("State", state)
	row("Asked", fmt.Sprintf("%s (%s ago)", utc(a.GetCreated().AsTime()), seconds(max(now.Sub(a.GetCreated().AsTime()), 0).Seconds())))
	if a.GetState() == waiting {
		row("Expires", fmt.Sprintf("%s (%s)", utc(a.GetExpires().AsTime()), inTime(a.GetExpires().AsTime().Sub(now))))
	}
	row("Approved", agreed(a))
	for _, d := range a.GetDecisions() {
		verb := "denied by"
		if d.GetApproved() {
			verb = "approved by"
		}
		row("", fmt.Sprintf("%s %s at %s: %s", verb, cellOf(d.GetApprover()), utc(d.GetTime().AsTime()), cellOf(d.GetReason())))
	}
	may := "yes"
	if !a.GetMayDecide() {
		may = "no: " + cellOf(cmp.Or(a.GetWhyNot(), "unknown"))
	}
	row("You may decide", may)
	if err := table.Flush(); err != nil {
		return err
	}
	if a.GetPreview() != "" {
		fmt.Fprintf(out, "\nPreview:\n%s\n", harmless(a.GetPreview()))
	}
	if !json.Valid([]byte(a.GetArgumentsJson())) {
		_, err := fmt.Fprintln(out, "\nThe arguments are not shown.")
		return err
	}
	fmt.Fprintln(out, "\nArguments:")
	return printJSON(out, json.RawMessage(jsontext.Visible([]byte(a.GetArgumentsJson()), 0)))
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// newDecisionCommand is approve or deny.
func newDecisionCommand(env environment, approve bool, long string) *cobra.Command {
	var at adminFlags
	var reason string
	var asJSON bool
	name, short := "approve", "Approve a call that waits"
	if !approve {
		name, short = "deny", "Deny a call that waits, so that it never runs"
	}
	cmd := &cobra.Command{
		Use:   name + " ID",
		Short: short,
		Long:  long + "\n\nExit codes: 0 success, 2 invalid usage, 3 no answer, else that of the canonical code.",
		Example: `  sidecar approvals ` + name + ` 7f3a --reason "ticket 4711"
  sidecar approvals ` + name + ` 7f3a --reason "ticket 4711" --admin https://pod.example:9901 --token-file token`,
		Args: between(1, 1),
	}
	at.register(cmd, env)
	cmd.Flags().StringVar(&reason, "reason", "", "why, in at most 1,024 bytes (required)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON (outrigger.admin.v1.Approval) after the decision")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if reason = strings.TrimSpace(reason); reason == "" || len(reason) > maxReason {
			return usageError(fmt.Sprintf("--reason: must be set, to 1 to %d bytes, has %d", maxReason, len(reason)))
		}
		d, err := at.openApprovals()
		if err != nil {
			return err
		}
		id, err := d.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), approvalsTimeout)
		defer cancel()
		out, err := d.api.DecideApproval(ctx, signed(d.adminClient, &adminv1.DecideApprovalRequest{Id: id, Approve: approve, Reason: reason}))
		if err != nil {
			return d.failed(err)
		}
		if asJSON {
			return printMessage(env.stdout, out.Msg.GetApproval())
		}
		_, err = fmt.Fprintln(env.stdout, outcomeOf(out.Msg.GetApproval()))
		return err
	}
	return cmd
}

// outcomeOf says what came of a decision.
func outcomeOf(a *adminv1.Approval) string {
	what := fmt.Sprintf("%s of %s (%s)", cellOf(a.GetTool()), cellOf(a.GetRequester()), cellOf(a.GetId()))
	switch a.GetState() {
	case waiting:
		return fmt.Sprintf("Approved: %s; %s so far.", what, agreed(a))
	case "denied":
		return "Denied: " + what + "; it will not run."
	case "approved", "running", "done":
		return fmt.Sprintf("Approved: %s; %s, so the call may run.", what, agreed(a))
	}
	return cellOf(a.GetState()) + ": " + what
}
