// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/reload"
)

// TestSkillsAreReloaded: a change is announced, and a version with an error leaves the last good one in use.
func TestSkillsAreReloaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const manual = "---\nname: a\ndescription: b\n---\n"
	write("a/SKILL.md", manual)
	write("README", "outside")
	write(".git/x", "hidden")
	core, logged := observer.New(zapcore.InfoLevel)
	cfg := config.Defaults(config.Serve)
	cfg.Backend.Url, cfg.Catalog.Skills, cfg.Record.Dir = "grpc://127.0.0.1:1", []string{dir}, new("off")
	a, err := New(t.Context(), cfg, Options{Log: zap.New(core), Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if got := logged.FilterMessage("skills loaded").All(); len(got) != 1 || got[0].ContextMap()["files_outside"] != int64(1) || got[0].ContextMap()["hidden_entries"] != int64(1) {
		t.Errorf("log %v", got)
	}
	if s := a.watcher.Status()[0]; s.Group != "skills" || s.Files != 4 {
		t.Errorf("watched: %+v", s)
	}
	subscription, err := a.feed.Subscribe(notify.Filter{Resources: true, ResourceURIs: []string{"skill://a/x.md", "skill://a/SKILL.md"}})
	if err != nil {
		t.Fatal(err)
	}
	defer subscription.Close()
	changes := func() (out []string) {
		for {
			c, ok, err := subscription.Poll()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return out
			}
			out = append(out, c.Notification().GetMethod()+" "+c.URI)
		}
	}
	for _, step := range []struct {
		name    string
		change  func()
		outcome reload.Outcome
		changes []string
		files   int
	}{
		{"nothing", func() {}, reload.Unchanged, nil, 1},
		{"a new file", func() { write("a/x.md", "x") }, reload.Applied, []string{notify.MethodResourcesChanged + " ", notify.MethodResourceUpdated + " skill://a/x.md"}, 2},
		{"broken", func() { write("a/SKILL.md", "broken") }, reload.Refused, nil, 2},
		{"good again", func() { write("a/SKILL.md", manual) }, reload.Unchanged, nil, 2},
		{"no skill", func() {
			if err := os.Remove(filepath.Join(dir, "a", "SKILL.md")); err != nil {
				t.Fatal(err)
			}
		}, reload.Refused, nil, 2},
		{"another text", func() { write("a/SKILL.md", manual+"more") }, reload.Applied, []string{notify.MethodResourcesChanged + " ", notify.MethodResourceUpdated + " skill://a/SKILL.md"}, 2},
	} {
		step.change()
		if got := a.rereadSkills(t.Context()); got != step.outcome {
			t.Errorf("%s: %v, want %v", step.name, got, step.outcome)
		}
		if got := changes(); !slices.Equal(got, step.changes) {
			t.Errorf("%s: announced %q, want %q", step.name, got, step.changes)
		}
		if got := len(a.skills.Current().Resources()); got != step.files {
			t.Errorf("%s: %d files, want %d", step.name, got, step.files)
		}
	}
	if n := logged.FilterMessage("skills rejected; keeping the last good ones").Len(); n != 2 {
		t.Errorf("%d rejections in the log, want 2", n)
	}
}
