// SPDX-License-Identifier: Apache-2.0

package policy

// Reason is why Slots rejected a call.
type Reason int

// The reasons.
const (
	// QueueFull is a call that found no room in the queue.
	QueueFull Reason = iota
	// QueueWait is one that got no slot in time.
	QueueWait
	// CallerShare and ToolShare are calls of a caller, or to a tool, that used up its share.
	CallerShare
	ToolShare
	reasons
)

// String returns the field of the configuration whose limit was reached.
func (r Reason) String() string {
	return [...]string{"max_queued_calls", "max_queue_wait", "caller_share_percent", "tool_share_percent"}[r]
}

// count notes a rejected call; f is nil for one whose tool is not known. s.mu is held.
func (s *Slots) count(f *flow, why Reason) {
	s.rejected[why]++
	if f == nil {
		s.byTool[why].add("")
		return
	}
	s.byTool[why].add(f.tool.name)
	if f.group != nil {
		f.group.rejected[why]++
	}
}

// Rejected returns how many calls of each tool were rejected for a reason, sorted by tool. Beyond DefaultMaxCounted tools, the
// rest is counted together as OtherTools. Calls that were rejected before they were read have an empty name. Nil has none.
func (s *Slots) Rejected() map[Reason][]Refusals {
	if s == nil {
		return nil
	}
	out := make(map[Reason][]Refusals, reasons)
	for why := range reasons {
		out[why] = s.byTool[why].list()
	}
	return out
}

// ClassStats are the statistics of a class.
type ClassStats struct {
	Name string
	// Running and Waiting are the current numbers of calls, Reserved is the number of slots that are reserved.
	Running, Waiting, Reserved int
	// Rejected are the rejected calls, by reason.
	Rejected [reasons]uint64
}

// Classes returns the statistics of the classes of tools and of callers, in their order.
func (s *Slots) Classes() (tools, callers []ClassStats) {
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return classStats(s.toolClasses), classStats(s.callerClasses)
}

func classStats(classes []*class) []ClassStats {
	out := make([]ClassStats, len(classes))
	for i, c := range classes {
		out[i] = ClassStats{Name: c.Name, Reserved: c.Reserved}
		for _, g := range c.groups {
			out[i].Running += g.running
			out[i].Waiting += g.waiting
			for why, n := range g.rejected {
				out[i].Rejected[why] += n
			}
		}
	}
	return out
}
