// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

const (
	// approveWithin is how long a call waits for approval if its rule does not say.
	approveWithin = 24 * time.Hour
	// localOperator is the one approver where operators do not authenticate.
	localOperator = "local"
)

// Approval says who decides about a call, and how long that may take.
type Approval struct {
	// Callers are operators by their names, Groups those whose members may approve.
	Callers, Groups []string
	// Count is how many must agree; 0 is 1. Within is how long a call waits; 0 is a day.
	Count  int
	Within time.Duration
	// Bound are the paths of the arguments that an approval is for; none: all.
	Bound []string
}

// Asks is what a rule with the effect Approve asks for.
type Asks struct {
	Approval
	// Rule is the name of the rule. Digest identifies what it says, its condition and its tools included.
	Rule   string
	Digest [32]byte
}

// Asks returns what a rule in use asks for; false if there is no such rule with the effect Approve.
func (e *Engine) Asks(rule string) (Asks, bool) {
	for _, r := range e.Set().rules {
		if r.Name == rule && r.Effect == Approve {
			return r.asks(), true
		}
	}
	return Asks{}, false
}

// HasApprovals reports whether a rule in use has the effect Approve.
func (e *Engine) HasApprovals() bool { return e.Set().HasApprovals() }

// HasApprovals reports whether a rule has the effect Approve.
func (s *Set) HasApprovals() bool {
	return s != nil && slices.ContainsFunc(s.rules, func(r *compiled) bool { return r.Effect == Approve })
}

// asks is what the rule asks for, with its defaults.
func (r *compiled) asks() Asks {
	out := Asks{Approval: *r.Approve, Rule: r.Name}
	out.Count = max(out.Count, 1)
	if out.Within == 0 {
		out.Within = approveWithin
	}
	text, err := json.Marshal([]any{r.Name, r.Tools, r.Backend, r.When, out.Approval})
	if err != nil {
		text = fmt.Append(nil, r.Name, r.Tools, r.Backend, r.When, out.Approval)
	}
	out.Digest = sha256.Sum256(text)
	return out
}

// firstApproval is what the approve rules of a tool say: the first that holds. Of a tool, and not a call, they say that it is shown
// if one may hold.
func (s *Set) firstApproval(b *bound, with *activation, isCall bool, count *counts) (decision, bool) {
	for _, r := range b.approve {
		switch {
		case !isCall && (r.args || s.holds(r, with, count)):
			return decision{}, true
		case isCall && s.holds(r, with, count):
			return decision{Rule: r.Name, Effect: Approve}, true
		}
	}
	return decision{}, false
}

// unboundPaths are the paths of a rule's approve.bound that the arguments of a tool do not have.
func (r *compiled) unboundPaths(t *catalog.Tool) []Fault {
	if r.Approve == nil {
		return nil
	}
	var out []Fault
	for i, path := range r.Approve.Bound {
		names := strings.Split(path, ".")
		has := false
		if t.Native {
			has = hasProperty(t.Input.Canonical(), names)
		} else {
			has = hasField(t.Method.Descriptor.Input(), names)
		}
		if !has {
			out = append(out, Fault{Index: r.index, Field: fmt.Sprintf("approve.bound[%d]", i), Tool: t.Name, Message: path + " is no path of the tool's arguments"})
		}
	}
	return out
}

// hasField reports whether a message has the field of a path, through lists and maps.
func hasField(md protoreflect.MessageDescriptor, names []string) bool {
	for i, name := range names {
		if md == nil {
			return false
		}
		fd := ArgumentField(md, name)
		if fd == nil {
			return false
		}
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		if i+1 == len(names) {
			return true
		}
		md = fd.Message()
	}
	return false
}

// ArgumentField returns the field that a path of an argument names, as the descriptor or as JSON has it; nil if there is none.
func ArgumentField(md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := md.Fields().ByName(protoreflect.Name(name)); fd != nil {
		return fd
	}
	return md.Fields().ByJSONName(name)
}

// hasProperty reports whether a schema has the property of a path, or leaves open what it has.
func hasProperty(raw []byte, names []string) bool {
	if len(names) == 0 {
		return true
	}
	var of jsonSchema
	if json.Unmarshal(raw, &of) != nil || of.Ref != nil || of.AnyOf != nil || of.OneOf != nil {
		return true
	}
	if next, ok := of.Properties[names[0]]; ok {
		return hasProperty(next, names[1:])
	}
	if len(of.Items) > 0 {
		return hasProperty(of.Items, names)
	}
	return len(of.Properties) == 0 && string(of.AdditionalProperties) != "false"
}

// Approvers are the operators of a sidecar, as far as rules name them.
type Approvers struct {
	// Groups are those of each operator, by its name.
	Groups map[string][]string
}

// LocalApprover is the one approver where there is no file of operators.
func LocalApprover() Approvers { return Approvers{Groups: map[string][]string{localOperator: nil}} }

// CheckApprovers returns the faults of rules whose approvers do not exist, or are too few.
func (s *Set) CheckApprovers(who Approvers) []Fault {
	if !s.HasApprovals() {
		return nil
	}
	var out []Fault
	for _, r := range s.rules {
		if r.Effect == Approve {
			out = append(out, r.checkApprovers(who)...)
		}
	}
	return out
}

func (r *compiled) checkApprovers(who Approvers) []Fault {
	var out []Fault
	fault := func(field, format string, args ...any) {
		out = append(out, Fault{Index: r.index, Field: "approve." + field, Message: fmt.Sprintf(format, args...)})
	}
	may := map[string]bool{}
	for i, name := range r.Approve.Callers {
		if _, ok := who.Groups[name]; !ok {
			fault(fmt.Sprintf("callers[%d]", i), "%s is no operator: add it to the operators file (--admin-tokens); without one the only approver is %s", name, localOperator)
			continue
		}
		may[name] = true
	}
	for i, group := range r.Approve.Groups {
		empty := true
		for name, groups := range who.Groups {
			if slices.Contains(groups, group) {
				may[name], empty = true, false
			}
		}
		if empty {
			fault(fmt.Sprintf("groups[%d]", i), "no operator is in group %s: name it in the `groups` of one (--admin-tokens)", group)
		}
	}
	if n := r.asks().Count; len(out) == 0 && n > len(may) {
		fault("count", "%d must approve, and only %d may", n, len(may))
	}
	return out
}
