// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"strings"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

// approvals are what the store has of approvals, and what ran by them, by their ids.
type approvals map[string]*approvalSeen

type approvalSeen struct {
	record *statev1.ApprovalRecord
	// owners were stored as taking it to run, and runs counts the calls of the backend.
	owners []string
	runs   int
	// heard are decisions that their operators know to be taken.
	heard map[string]bool
}

func (l *ledger) approval(id string) *approvalSeen {
	if l.approvals[id] == nil {
		l.approvals[id] = &approvalSeen{heard: map[string]bool{}}
	}
	return l.approvals[id]
}

// approvedRun notes that a call runs. Its approval was stored as taken by this replica.
func (l *ledger) approvedRun(w *world, r *replica, c *asked, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.exercise(propertyApproved)
	one := l.approval(id)
	if one.runs++; one.runs > 1 {
		w.reach("an approved call runs again")
		if !c.isIdempotent() {
			w.violate(propertyApproved, "%s runs %d times by %s, now at %s", c.name, one.runs, id, r.name)
		}
	}
	isTaken := false
	for _, owner := range one.owners {
		isTaken = isTaken || strings.HasPrefix(owner, r.store.Self()+"/")
	}
	if !isTaken || !approvedByTwo(one.record) {
		w.violate(propertyDenied, "%s runs at %s, and is stored as %v", c.name, r.name, one.record)
	}
	if len(one.owners) > 1 && !c.isIdempotent() {
		w.violate(propertyApproved, "%s was taken by %v", id, one.owners)
	}
}

// approvedByTwo reports whether two people other than the requester approved, and none denied.
func approvedByTwo(r *statev1.ApprovalRecord) bool {
	people := map[string]bool{}
	for _, d := range r.GetDecisions() {
		if !d.GetApproved() || personOf(d.GetApprover()) == r.GetRequester() {
			return false
		}
		people[personOf(d.GetApprover())] = true
	}
	return len(people) >= 2
}

// decided notes that an operator heard that its decision was taken.
func (l *ledger) decided(id, name string, approved bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.approval(id).heard[name] = approved
}

// approvalStored notes what the store has of an approval: it goes one way, no decision is lost, and what is denied, expired or
// cancelled has not run and is not taken to run.
func (l *ledger) approvalStored(w *world, key string, r *statev1.ApprovalRecord) {
	one := l.approval(r.GetId())
	before := one.record
	if key == r.GetId() { // a copy, beside the one that takes its place
		return
	}
	one.record = r
	w.reach("approval: " + r.GetState())
	w.exercise(propertyPeople)
	people := map[string]bool{}
	for _, d := range r.GetDecisions() {
		person := personOf(d.GetApprover())
		if person == r.GetRequester() || people[person] {
			w.violate(propertyPeople, "%s is decided by %v", r.GetId(), r.GetDecisions())
		}
		people[person] = true
	}
	if r.GetState() == approval.Running && (len(one.owners) == 0 || one.owners[len(one.owners)-1] != r.GetOwner()) {
		one.owners = append(one.owners, r.GetOwner())
	}
	switch state := r.GetState(); {
	case before == nil:
		if state != approval.Waiting {
			w.violate(propertyDenied, "%s begins as %s", r.GetId(), state)
		}
		return
	case len(r.GetDecisions()) < len(before.GetDecisions()):
		w.violate(propertyKept, "%s has lost a decision: %v, %v", r.GetId(), before, r)
	case state == approval.Denied, state == approval.Expired, state == approval.Cancelled:
		w.exercise(propertyDenied)
		if len(one.owners) > 0 {
			w.violate(propertyDenied, "%s was taken by %v, and is %s", r.GetId(), one.owners, state)
		}
	case (state == approval.Approved || state == approval.Running || state == approval.Done) && !approvedByTwo(r):
		w.violate(propertyPeople, "%s is %s, by %v", r.GetId(), state, r.GetDecisions())
	}
	switch before.GetState() {
	case approval.Denied, approval.Expired, approval.Cancelled, approval.Done:
		w.violate(propertyDenied, "%s has ended as %s, and becomes %s", r.GetId(), before.GetState(), r.GetState())
	}
}

// auditApprovals looks at each approval once all is well: none is left open, those that ran are stored so, and no decision is lost.
func (w *world) auditApprovals() {
	l := &w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, one := range l.approvals {
		w.exercise(propertyWell)
		if one.record == nil {
			w.violate(propertyKept, "approval %s is lost", id)
			continue
		}
		switch state := one.record.GetState(); {
		case state == approval.Done && one.runs == 0 && one.record.GetEnded() == "":
			w.violate(propertyAnswer, "approval %s has run, and never did", id)
		case state == approval.Running:
			w.reach("an approval stays taken")
		case state == approval.Waiting || state == approval.Approved:
			w.violate(propertyWell, "approval %s is %s, and nothing becomes of it", id, state)
		}
		for name, approved := range one.heard {
			isKept := false
			for _, d := range one.record.GetDecisions() {
				isKept = isKept || d.GetApprover() == name && d.GetApproved() == approved
			}
			if !isKept {
				w.violate(propertyKept, "the decision of %s about %s is lost: %v", name, id, one.record)
			}
		}
	}
}
