// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

// laxRules are rules that ask for no approval any more.
type laxRules struct{ Rules }

func (laxRules) MayCall(*identity.Identity, *catalog.Tool, []byte) (rule, effect string, err *errmap.Error) {
	return "", "", nil
}

// TestRulesThatAskNoMore: a call that waits runs without its approval, which ends with that: approvers are not asked any more, and a
// replica that takes the task over does not run it again, unless its tool may be repeated.
func TestRulesThatAskNoMore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		repeatable, denied bool
		first, second      errmap.Code
	}{
		"once":       {second: errmap.TransportError},
		"repeatable": {repeatable: true},
		"denied":     {denied: true, first: errmap.PermissionDenied, second: errmap.PermissionDenied},
	} {
		rule := approval.Rule{Name: "large", Callers: []string{"local"}, Count: 1, Within: time.Hour}
		service := approval.New(approval.Options{
			Store: approval.NewMemory(nil), Self: "r", Rule: func(string) (approval.Rule, bool) { return rule, true },
		})
		a := &approvals{service: service, rulebook: &rulebook{laxRules{}}, directory: &directory{}}
		a.tasks = &tasks{sender: &sender{deadlines: &deadlines{most: time.Minute}}}
		of := &approval.Call{Requester: "tess", Principal: "tess", Tool: "shop.refund", Rule: rule}
		record, err := service.Ask(t.Context(), of, "")
		if err != nil {
			t.Fatal(err)
		}
		if tc.denied {
			if _, err = service.Decide(t.Context(), record.GetId(), approval.Approver{Name: "local"}, false, "no"); err != nil {
				t.Fatal(err)
			}
		}
		await := func(resumed bool) errmap.Code {
			own := &toolCall{tool: &catalog.Tool{Name: "shop.refund", Annotations: catalog.Annotations{Idempotent: &tc.repeatable}}, approved: &approvedCall{service: a.service}}
			w := &waitingCall{id: record.GetId(), resumed: resumed, call: &statev1.TaskCall{Approval: record.GetId(), Caller: "tess", Tool: "shop.refund"}}
			err := w.await(context.Background(), a, own, func(string) {})
			if err == nil {
				if w.waits() {
					t.Errorf("%s: it runs, and waits", name)
				}
				return ""
			}
			return err.Code
		}
		if got := await(false); got != tc.first {
			t.Errorf("%s: %q, want %q", name, got, tc.first)
		}
		if n := service.Waiting(); n != 0 {
			t.Errorf("%s: %d calls wait", name, n)
		}
		if got := await(true); got != tc.second {
			t.Errorf("%s, taken over: %q, want %q", name, got, tc.second)
		}
	}
}

// strictRules are rules that ask for approval.
type strictRules struct{ Rules }

func (strictRules) MayCall(*identity.Identity, *catalog.Tool, []byte) (rule, effect string, err *errmap.Error) {
	return "large", effectApprove, nil
}

func (strictRules) Asks(string) (policy.Asks, bool) {
	return policy.Asks{Rule: "large", Approval: policy.Approval{Callers: []string{"local"}, Count: 1, Within: time.Hour}}, true
}

// awayStore is a store that is away for some of its reads.
type awayStore struct {
	approval.Store
	left atomic.Int32
}

func (s *awayStore) Get(ctx context.Context, key string) (approval.Entry, error) {
	if s.left.Add(-1) >= 0 {
		return approval.Entry{}, approval.ErrUnavailable
	}
	return s.Store.Get(ctx, key)
}

// TestACallWaitsForAStoreThatIsAway: a call that waits for approval goes on when the store is back, and ends with its time.
func TestACallWaitsForAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rule := approval.Rule{Name: "large", Callers: []string{"local"}, Count: 1, Within: time.Hour}
		store := &awayStore{Store: approval.NewMemory(nil)}
		service := approval.New(approval.Options{
			Store: store, Self: "r", Rule: func(string) (approval.Rule, bool) { return rule, true },
			Operator: func(string) (approval.Approver, bool) { return approval.Approver{Name: "local"}, true },
		})
		a := &approvals{service: service, rulebook: &rulebook{strictRules{}}, directory: &directory{}}
		a.tasks = &tasks{sender: &sender{deadlines: &deadlines{most: time.Minute}}}
		tool := &catalog.Tool{Name: "shop.refund", Native: true, Input: schema.Fixed(&schema.Schema{}), Output: schema.Fixed(&schema.Schema{})}
		await := func(ctx context.Context) (*waitingCall, *errmap.Error) {
			own := &toolCall{tool: tool, approved: &approvedCall{service: service}}
			w := &waitingCall{call: &statev1.TaskCall{Caller: "tess", Tool: tool.Name, Wire: []byte("{}")}}
			return w, w.await(ctx, a, own, func(string) {})
		}
		store.left.Store(100)
		go func() {
			time.Sleep(30 * time.Minute)
			all, _ := service.List(t.Context(), false)
			if len(all) != 1 {
				t.Errorf("%d calls wait", len(all))
				return
			}
			if _, err := service.Decide(t.Context(), all[0].GetId(), approval.Approver{Name: "local"}, true, "yes"); err != nil {
				t.Error(err)
			}
		}()
		if w, err := await(t.Context()); err != nil || w.waits() {
			t.Errorf("%v, it waits: %t", err, w.waits())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		store.left.Store(1 << 30)
		if w, err := await(ctx); err == nil || !w.waits() {
			t.Errorf("a store that does not come back: %v, it waits: %t", err, w.waits())
		}
	})
}

// waitingShop is what calls that wait for the local operator need at a replica, whose others are all dead, and such a call.
func waitingShop(self string, store approval.Store) (*approvals, *catalog.Tool, *statev1.TaskCall) {
	rule := approval.Rule{Name: "large", Callers: []string{"local"}, Count: 1, Within: time.Hour}
	service := approval.New(approval.Options{
		Store: store, Self: self, Alive: func(context.Context, string) (bool, error) { return false, nil },
		Rule:     func(string) (approval.Rule, bool) { return rule, true },
		Operator: func(string) (approval.Approver, bool) { return approval.Approver{Name: "local"}, true },
	})
	a := &approvals{service: service, rulebook: &rulebook{strictRules{}}, directory: &directory{}}
	a.tasks = &tasks{sender: &sender{deadlines: &deadlines{most: time.Minute}}}
	tool := &catalog.Tool{Name: "shop.refund", Native: true, Input: schema.Fixed(&schema.Schema{}), Output: schema.Fixed(&schema.Schema{})}
	return a, tool, &statev1.TaskCall{Caller: "tess", Tool: tool.Name, Wire: []byte("{}")}
}

// TestACallThatWasTakenToRunWaitsNoMore: a replica that takes it over begins it for the second time, which is bounded.
func TestACallThatWasTakenToRunWaitsNoMore(t *testing.T) {
	t.Parallel()
	a, tool, call := waitingShop("r", approval.NewMemory(nil))
	of := toApprove(tool, call.GetWire(), policy.Asks{Rule: "large", Approval: policy.Approval{Callers: []string{"local"}, Count: 1, Within: time.Hour}})
	of.Requester, of.Principal = "tess", "tess"
	record, err := a.service.Ask(t.Context(), of, "")
	if err != nil {
		t.Fatal(err)
	}
	call.Approval = record.GetId()
	for _, step := range []struct {
		name  string
		do    func() *errmap.Error
		waits bool
	}{
		{"waiting", func() *errmap.Error { return nil }, true},
		{"approved", func() *errmap.Error {
			_, err := a.service.Decide(t.Context(), call.GetApproval(), approval.Approver{Name: "local"}, true, "yes")
			return err
		}, true},
		{"running", func() *errmap.Error {
			_, err := a.service.Claim(t.Context(), of, call.GetApproval(), true)
			return err
		}, false},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if waits, err := a.resume(&toolCall{tool: tool}, call); err != nil || (waits != nil) != step.waits {
			t.Errorf("%s: it waits: %t, %v", step.name, waits != nil, err)
		}
	}
}

// TestACallWhoseReplicaDied while it ran is run again by the next one if that does no harm: its tool is idempotent, or its request has an id.
// Of others the outcome is unknown.
func TestACallWhoseReplicaDied(t *testing.T) {
	t.Parallel()
	idempotent := true
	for name, tc := range map[string]struct {
		change func(*catalog.Tool)
		code   errmap.Code
	}{
		"once":       {func(*catalog.Tool) {}, errmap.TransportError},
		"idempotent": {func(t *catalog.Tool) { t.Annotations.Idempotent = &idempotent }, ""},
		"with an id": {func(t *catalog.Tool) { t.RequestID = (&statev1.TaskCall{}).ProtoReflect().Descriptor().Fields().Get(0) }, ""},
	} {
		store := approval.NewMemory(nil)
		dead, tool, call := waitingShop("dead", store)
		tc.change(tool)
		begun := &waitingCall{call: call}
		of, err := begun.current(t.Context(), dead, tool)
		if err != nil {
			t.Fatal(err)
		}
		record, err := dead.service.Ask(t.Context(), of, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = dead.service.Decide(t.Context(), record.GetId(), approval.Approver{Name: "local"}, true, "yes"); err != nil {
			t.Fatal(err)
		}
		if _, err = dead.service.Claim(t.Context(), of, record.GetId(), false); err != nil {
			t.Fatal(err)
		}
		call.Approval = record.GetId()
		next, _, _ := waitingShop("next", store)
		own := &toolCall{tool: tool}
		if _, err := next.resume(own, call); err != nil {
			t.Fatal(err)
		}
		err = own.approved.wait(t.Context(), func(string) {})
		if err == nil != (tc.code == "") || err != nil && err.Code != tc.code {
			t.Errorf("%s: %v, want %q", name, err, tc.code)
		}
		if hasClaim := own.approved.claim != nil; hasClaim != (tc.code == "") {
			t.Errorf("%s: it runs: %t", name, hasClaim)
		}
	}
}

// TestATaskKnowsWhichApprovalItWaitsFor: one that is asked about anew is taken over with the approval of now.
func TestATaskKnowsWhichApprovalItWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, tool, call := waitingShop("r", approval.NewMemory(nil))
		again, err := proto.Marshal(call)
		if err != nil {
			t.Fatal(err)
		}
		manager := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
		w := &waitingCall{call: call}
		out, err := manager.Start(t.Context(), task.Spec{Principal: "tess", Tool: tool.Name, Again: again, Waits: w.waits, Timeout: time.Hour},
			func(ctx context.Context, report func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
				own := &toolCall{tool: tool, approved: &approvedCall{service: a.service}}
				return nil, w.await(ctx, a, own, report)
			})
		if err != nil {
			t.Fatal(err)
		}
		waitsFor := func() string {
			synctest.Wait()
			r, err := manager.Record(t.Context(), "tess", out.Task.GetTaskId())
			stored := &statev1.TaskCall{}
			if err != nil || proto.Unmarshal(r.Again, stored) != nil {
				t.Fatalf("%v, %v", r, err)
			}
			return stored.GetApproval()
		}
		first := waitsFor()
		time.Sleep(time.Second)
		if failed := a.service.Cancel(t.Context(), first, "the rule was changed"); failed != nil {
			t.Fatal(failed)
		}
		second := waitsFor()
		if all, _ := a.service.List(t.Context(), false); first == "" || second == first || len(all) != 1 || all[0].GetId() != second {
			t.Errorf("%q, then %q; %v", first, second, all)
		}
		if err := manager.Cancel(t.Context(), "tess", out.Task.GetTaskId()); err != nil {
			t.Error(err)
		}
	})
}

// TestACallWhoseTokenIsGoneIsResumed as that of its caller, as the caller is now; not as another one.
func TestACallWhoseTokenIsGoneIsResumed(t *testing.T) {
	t.Parallel()
	kept := &statev1.TaskIdentity{Name: "iss#ann", Source: "oauth", Issuer: "iss", Subject: "ann", Groups: []string{"desk"}, Standing: []byte("as then")}
	for name, tc := range map[string]struct {
		caller string
		again  func(identity.Facts, []byte) *identity.Identity
		code   errmap.Code
	}{
		"known": {"oauth:iss ann", func(f identity.Facts, standing []byte) *identity.Identity {
			if f.Subject != "ann" || len(f.Groups) != 1 || string(standing) != "as then" {
				t.Errorf("%+v %q", f, standing)
			}
			return identity.NewIdentityOf(identity.Grant{Name: "iss#ann", Tools: []string{"*"}}, f)
		}, ""},
		"another caller": {"oauth:iss bob", func(f identity.Facts, _ []byte) *identity.Identity {
			return identity.NewIdentityOf(identity.Grant{Name: "iss#ann", Tools: []string{"*"}}, f)
		}, errmap.PermissionDenied},
		"unknown": {"oauth:iss ann", func(identity.Facts, []byte) *identity.Identity { return nil }, errmap.PermissionDenied},
	} {
		a, tool, call := waitingShop("r", approval.NewMemory(nil))
		call.Caller, call.Identity, call.Who = tc.caller, kept, &statev1.TaskCaller{Name: "iss#ann", Source: "oauth"}
		a.again = tc.again
		of := toApprove(tool, call.GetWire(), policy.Asks{Rule: "large", Approval: policy.Approval{Callers: []string{"local"}, Count: 1, Within: time.Hour}})
		of.Requester, of.Principal = "iss#ann", tc.caller
		record, err := a.service.Ask(t.Context(), of, "")
		if err != nil {
			t.Fatal(err)
		}
		call.Approval = record.GetId()
		if _, err := a.service.Decide(t.Context(), record.GetId(), approval.Approver{Name: "local"}, true, "yes"); err != nil {
			t.Fatal(err)
		}
		own := &toolCall{tool: tool}
		if _, err := a.resume(own, call); err != nil {
			t.Fatal(err)
		}
		if err = own.approved.wait(t.Context(), func(string) {}); err == nil != (tc.code == "") || err != nil && err.Code != tc.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}
