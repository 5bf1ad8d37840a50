// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/glob"
)

// Filter chooses lines. Empty fields choose all.
type Filter struct {
	// Caller is a pattern with * for the name, the subject, the OAuth client or the address
	// of the caller, and Tool one for the tool or the target.
	Caller, Tool string
	// Since and Until bound the time, both inclusive.
	Since, Until time.Time
	// Code, Edge and Decision are compared without regard to case.
	Code, Edge, Decision string
}

// Matches reports whether a line is chosen.
func (f *Filter) Matches(l *Line) bool {
	return f.matchesCaller(l) && f.matchesTool(l) && f.matchesTime(l.Time) &&
		matchesWord(f.Code, l.Code) && matchesWord(f.Edge, l.Edge) && matchesWord(f.Decision, string(l.Decision))
}

func (f *Filter) matchesCaller(l *Line) bool {
	if f.Caller == "" {
		return true
	}
	c := &l.Caller
	for _, name := range [...]string{c.Name, c.Subject, c.ClientID, c.Address} {
		if name != "" && glob.Match(f.Caller, name) {
			return true
		}
	}
	return false
}

func (f *Filter) matchesTool(l *Line) bool {
	return f.Tool == "" || l.Tool != "" && glob.Match(f.Tool, l.Tool) || l.Target != "" && glob.Match(f.Tool, l.Target)
}

func (f *Filter) matchesTime(t time.Time) bool {
	return (f.Since.IsZero() || !t.Before(f.Since)) && (f.Until.IsZero() || !t.After(f.Until))
}

func matchesWord(want, got string) bool { return want == "" || strings.EqualFold(want, got) }
