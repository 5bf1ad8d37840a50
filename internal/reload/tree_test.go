// SPDX-License-Identifier: Apache-2.0

package reload_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/reload"
)

// TestFilesThatComeAndGo: a tree is reloaded when a file in it changes, comes or goes, and not otherwise.
func TestFilesThatComeAndGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write(t, file("a"), "1")
	synctest.Test(t, func(t *testing.T) {
		w := reload.NewWatcher(interval)
		var reloads atomic.Int64
		w.AddTree("tree", func(context.Context) reload.Outcome {
			reloads.Add(1)
			return reload.Applied
		}, func() []string {
			paths, err := filepath.Glob(file("*"))
			if err != nil {
				t.Error(err)
			}
			return paths
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		for n, step := range []func(){
			func() {}, func() { write(t, file("b"), "2") }, func() {}, func() { write(t, file("b"), "3") }, func() { write(t, file("b"), "3") },
			func() {
				if err := os.Remove(file("a")); err != nil {
					t.Fatal(err)
				}
			}, func() {},
		} {
			step()
			time.Sleep(interval + 2*time.Second)
			synctest.Wait()
			if want := []int64{0, 1, 1, 2, 2, 3, 3}[n]; reloads.Load() != want {
				t.Errorf("after step %d: %d reloads, want %d", n, reloads.Load(), want)
			}
		}
		if s := w.Status()[0]; s.Files != 1 || s.Counts[reload.Applied] != 3 {
			t.Errorf("status %+v", s)
		}
		stop()
		<-done
	})
}
