// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// BenchmarkStart measures what running as a task costs a call.
func BenchmarkStart(b *testing.B) {
	done := text("done")
	for name, after := range map[string]time.Duration{"a call": time.Hour, "a task": 0} {
		b.Run(name, func(b *testing.B) {
			store := task.NewMemory(task.MemoryOptions{MaxTasks: 1 << 30})
			m := task.New(store, task.Options{})
			b.ReportAllocs()
			for b.Loop() {
				ended := make(chan struct{})
				out, err := m.Start(context.Background(), task.Spec{Principal: "alice", After: after, TTL: time.Second},
					func(context.Context, func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
						close(ended)
						return done, nil
					})
				<-ended
				if err != nil || (out.Task == nil) != (after > 0) {
					b.Fatalf("%v, %v", out, err)
				}
			}
			m.Drain(context.Background())
		})
	}
}

// BenchmarkGet looks at one of many tasks with a large result.
func BenchmarkGet(b *testing.B) {
	store := task.NewMemory(task.MemoryOptions{MaxBytes: 1 << 40})
	for n := range defaults.MaxTasks {
		r := sized(strconv.Itoa(n), 10_000)
		r.Task.Completion = &outriggerv1.Task_Result{Result: text("done")}
		create(b, store, r, nil)
	}
	m := task.New(store, task.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Get(context.Background(), "alice", "77"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReport measures a change that a hook gets.
func BenchmarkReport(b *testing.B) {
	told := 0
	m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{OnChange: func(string, *outriggerv1.Task) { told++ }})
	messages := []string{"one", "two"}
	_, err := m.Start(context.Background(), task.Spec{Principal: "alice"}, func(_ context.Context, report func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			report(messages[n%2])
			n++
		}
		return text("done"), nil
	})
	if err != nil {
		b.Fatal(err)
	}
	m.Drain(context.Background())
	if told == 0 {
		b.Error("nothing was told")
	}
}
