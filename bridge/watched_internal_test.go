// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestStagesAreBounded: a dialogue of many rounds has so many stages, the last of which covers the rest.
func TestStagesAreBounded(t *testing.T) {
	t.Parallel()
	s := newStages(time.Now())
	for range 10 * maxStages {
		s.enter(stageAdmit)
	}
	steps, now, _ := s.steps(time.Hour, true)
	last := steps[len(steps)-1]
	if len(steps) != maxStages || now != "rounds" || last.GetName() != "rounds" || last.GetAt().AsDuration()+last.GetTook().AsDuration() != time.Hour {
		t.Errorf("%d steps, the last %v, now in %s", len(steps), last, now)
	}
}

// TestStagesHaveNames: each has one, and docs/ARCHITECTURE.md says what it is.
func TestStagesHaveNames(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for s := range stageCount {
		name := s.String()
		if name == "" || seen[name] || !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("stage %d is called %q", s, name)
		}
		seen[name] = true
	}
}
