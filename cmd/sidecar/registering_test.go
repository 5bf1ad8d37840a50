// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"connectrpc.com/connect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// TestTheHowToOfRegistration sends what docs/registering-tools.md sends with curl, in its order, to the sidecar as it is,
// and compares the answers with those on the page. The catalog is refreshed after each request.
func TestTheHowToOfRegistration(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/registering-tools.md")
	if err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "serve", "--demo")
	stream, err := p.client(t).WatchTools(t.Context(), connect.NewRequest(&outriggerv1.WatchToolsRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	// step is what the next step of the stream says about the tool of the page.
	step := func() (added, changed, removed bool) {
		t.Helper()
		for stream.Receive() {
			for _, tool := range stream.Msg().GetAdded() {
				added = added || tool.GetName() == "desk.find_vehicle"
			}
			for _, tool := range stream.Msg().GetChanged() {
				changed = changed || tool.GetName() == "desk.find_vehicle"
			}
			for _, name := range stream.Msg().GetRemoved() {
				removed = removed || name == "desk.find_vehicle"
			}
			if !stream.Msg().GetMore() {
				return added, changed, removed
			}
		}
		t.Fatalf("the stream ended: %v", stream.Err())
		return false, false, false
	}
	step() // the tools at the start
	post := func(url, body string) (status int, answer []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if answer, err = io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, answer
	}
	places := strings.NewReplacer("http://127.0.0.1:9901", p.admin, "http://127.0.0.1:8080", p.main)
	parts := regexp.MustCompile("(?s)```sh\ncurl -s (\\S+) -H 'Content-Type: application/json' -d '([^']*)'\n```.*?```json\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(parts) != 4 || strings.Count(string(page), "```sh") != 4 {
		t.Fatalf("%d commands of the page are understood", len(parts))
	}
	call := parts[1]
	for i, want := range []struct{ added, changed, removed bool }{{added: true}, {}, {changed: true}, {removed: true}} {
		url, body, shown := parts[i][1], parts[i][2], parts[i][3]
		status, answer := post(places.Replace(url), body)
		var on, got any
		if err := json.Unmarshal([]byte(shown), &on); err != nil {
			t.Fatalf("command %d: the answer on the page: %v", i, err)
		}
		if err := json.Unmarshal(answer, &got); err != nil || status != http.StatusOK || !holds(got, on) {
			t.Fatalf("command %d: status %d, %s, want %s", i, status, answer, shown)
		}
		if want.added || want.changed || want.removed {
			if added, changed, removed := step(); added != want.added || changed != want.changed || removed != want.removed {
				t.Errorf("command %d: WatchTools says added %v, changed %v, removed %v", i, added, changed, removed)
			}
		}
		if status, answer := post(p.admin+"/refresh", ""); status != http.StatusOK {
			t.Fatalf("refresh: status %d, %s", status, answer)
		}
		last := strings.Replace(call[2], "101", "103", 1) // which the changed schema does not admit
		if status, answer := post(places.Replace(call[1]), last); status != map[int]int{0: 200, 1: 200, 2: 422, 3: 404}[i] {
			t.Errorf("after command %d a call gets status %d, %s", i, status, answer)
		}
	}
	// Neither is for callers.
	for _, part := range []int{0, 3} {
		url := strings.Replace(parts[part][1], "http://127.0.0.1:9901", p.main, 1)
		if status, answer := post(url, parts[part][2]); status != http.StatusNotImplemented || !strings.Contains(string(answer), "admin listener only") {
			t.Errorf("the main listener: status %d, %s", status, answer)
		}
	}
}

// holds reports whether a JSON value has all members of another one.
func holds(value, part any) bool {
	members, isObject := part.(map[string]any)
	if !isObject {
		return value == part
	}
	all, _ := value.(map[string]any)
	for name, member := range members {
		if !holds(all[name], member) {
			return false
		}
	}
	return true
}
