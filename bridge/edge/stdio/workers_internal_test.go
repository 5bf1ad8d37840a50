// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
)

func TestWorkersRunEverythingAtOnceAndOnce(t *testing.T) {
	t.Parallel()
	for _, keep := range []int32{0, 1, 8, 1000} {
		t.Run(strconv.Itoa(int(keep)), func(t *testing.T) {
			t.Parallel()
			const jobs, rounds = 100, 20
			w := newWorkers(keep)
			defer w.close()
			for range rounds {
				var mu sync.Mutex
				ran := map[int]int{}
				var all, together sync.WaitGroup
				together.Add(jobs)
				for i := range jobs {
					all.Add(1)
					w.run(func() {
						defer all.Done()
						together.Done()
						together.Wait() // none waits for another to be done
						mu.Lock()
						defer mu.Unlock()
						ran[i]++
					})
				}
				all.Wait()
				for i := range jobs {
					if ran[i] != 1 {
						t.Errorf("job %d ran %d times", i, ran[i])
					}
				}
			}
		})
	}
}

func TestWorkersKeepNoMoreThanTheyMay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keep = 3
		w := newWorkers(keep)
		release := make(chan struct{})
		for range 50 {
			w.run(func() { <-release })
		}
		close(release)
		synctest.Wait()
		if n := w.idle.Load(); n != keep {
			t.Errorf("%d are kept, want %d", n, keep)
		}
		for range 2 * keep { // who waits takes the next
			w.run(func() {})
			synctest.Wait()
			if n := w.idle.Load(); n != keep {
				t.Errorf("%d are kept, want %d", n, keep)
			}
		}
		w.close()
		if n := w.idle.Load(); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

func TestWorkersEndWhenTheirWorkIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(4)
		release, closed := make(chan struct{}), make(chan struct{})
		done := false
		w.run(func() { <-release; done = true })
		w.run(func() {})
		go func() { w.close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("close did not wait for what runs")
		default:
		}
		close(release)
		<-closed
		if !done {
			t.Error("what ran was cut off")
		}
	})
}

// BenchmarkWorkers compares a kept goroutine with a fresh one, for a call that
// needs 16 KiB of stack.
func BenchmarkWorkers(b *testing.B) {
	for name, keep := range map[string]int32{"fresh": 0, "kept": 8} {
		b.Run(name, func(b *testing.B) {
			w := newWorkers(keep)
			defer w.close()
			done := make(chan int)
			for b.Loop() {
				w.run(func() { done <- deep(16) })
				<-done
			}
		})
	}
}

//go:noinline
func deep(n int) int {
	var room [1 << 10]byte
	room[n%len(room)] = byte(n)
	if n == 0 {
		return int(room[0])
	}
	return deep(n-1) + int(room[n%len(room)])
}
