// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the inputs of the APIs have, for newer versions of the APIs")

// TestListsAreSmallAndWhole compares the sizes with the goals, and the places for values with those that the inputs had before
// lists had forms.
func TestListsAreSmallAndWhole(t *testing.T) {
	t.Parallel()
	goals := map[string]int{
		"temporal bounded, recursive": 480_000,
		"temporal none, shared":       360_000,
		"etcd bounded, recursive":     60_000,
	}
	rows, err := measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wrote bytes.Buffer
	lines := map[string]string{} // by API
	for _, r := range rows {
		name := r.api + " " + r.form.name
		t.Logf("%s: %d bytes, the dearest: %v", name, r.cost.Bytes, r.cost.Dearest[:3])
		if goal := goals[name]; goal > 0 && r.cost.Bytes >= goal {
			t.Errorf("%s: %d bytes, and %d are the goal", name, r.cost.Bytes, goal)
		}
		line := fmt.Sprintf("%s %d tools %d places %s\n", r.api, r.cost.Tools, r.found.count, r.found.digest)
		switch known, ok := lines[r.api]; {
		case !ok:
			lines[r.api] = line
			wrote.WriteString(line)
		case known != line:
			t.Errorf("%s has other places than the first form:\n%s%s", name, line, known)
		}
	}
	path := filepath.Join("testdata", "places.txt")
	if *update {
		if err := os.WriteFile(path, wrote.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if wrote.String() != string(want) {
		t.Errorf("places are missing, or new (-update if the APIs have changed):\n%s\nwas:\n%s", wrote.String(), want)
	}
}

// TestPlacesFollowReferences: the same places, written down in three ways.
func TestPlacesFollowReferences(t *testing.T) {
	t.Parallel()
	count := func(text string) string {
		t.Helper()
		s, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		n, err := s.of(s.root, "#", maxDepth)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %x", n.count, n.digest)
	}
	inline := count(`{"properties":{"a":{"properties":{"x":{},"y":{"items":{}}}},"b":{"additionalProperties":{"properties":{"x":{},"y":{"items":{}}}}}}}`)
	shared := count(`{"properties":{"a":{"$ref":"#/$defs/M","description":"A."},"b":{"additionalProperties":{"$ref":"#/$defs/M"}}},"$defs":{"M":{"properties":{"x":{},"y":{"items":{}}}}}}`)
	if inline != shared || !strings.HasPrefix(inline, "9 ") {
		t.Errorf("%s and %s", inline, shared)
	}
	if less := count(`{"properties":{"a":{"properties":{"x":{},"y":{}}},"b":{"additionalProperties":{"properties":{"x":{},"y":{"items":{}}}}}}}`); less == inline {
		t.Errorf("%s although items are missing", less)
	}
	if endless := count(`{"properties":{"a":{"$ref":"#"},"b":{}}}`); endless == inline {
		t.Error(endless)
	}
	s, err := parse(`{"properties":{"a":{"$ref":"#/$defs/None"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.of(s.root, "#", maxDepth); err == nil {
		t.Error("a reference that leads nowhere is no error")
	}
}
