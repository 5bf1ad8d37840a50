// SPDX-License-Identifier: Apache-2.0

package listcost_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
)

func measure(version string, sizes ...int) listcost.List {
	return listcost.Measure(version, len(sizes), func(i int) (string, int, int) { return "t" + strconv.Itoa(i), sizes[i], sizes[i] })
}

func TestTheDearestToolsComeFirst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		sizes []int
		want  string
	}{
		{nil, "[]"},
		{[]int{5}, "[{t0 5}]"},
		{[]int{1, 3, 2, 3}, "[{t1 3} {t3 3} {t2 2} {t0 1}]"},
		{[]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, "[{t11 12} {t10 11} {t9 10} {t8 9} {t7 8} {t6 7} {t5 6} {t4 5} {t3 4} {t2 3}]"},
		{[]int{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, "[{t0 12} {t1 11} {t2 10} {t3 9} {t4 8} {t5 7} {t6 6} {t7 5} {t8 4} {t9 3}]"},
	} {
		l := measure("v", tt.sizes...)
		if got := fmt.Sprint(l.Dearest); got != tt.want {
			t.Errorf("%v: %s", tt.sizes, got)
		}
		sum, tokens := 0, 0
		for _, n := range tt.sizes {
			sum += n
			tokens += n / 4
		}
		if l.Bytes != sum || l.Tools != len(tt.sizes) || l.Tokens != tokens {
			t.Errorf("%v: %+v, want %d tokens", tt.sizes, l, tokens)
		}
	}
}

func TestABudgetIsTheTighterOfItsBounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		budget  listcost.Budget
		bytes   int
		exceeds bool
		inBytes int
	}{
		{listcost.Budget{}, 1 << 30, false, 0},
		{listcost.Budget{Bytes: 100}, 100, false, 100},
		{listcost.Budget{Bytes: 100}, 101, true, 100},
		{listcost.Budget{Tokens: 10}, 43, false, 40},
		{listcost.Budget{Tokens: 10}, 44, true, 40},
		{listcost.Budget{Bytes: 100, Tokens: 10}, 60, true, 40},
		{listcost.Budget{Bytes: 50, Tokens: 100}, 60, true, 50},
	} {
		if got := tt.budget.IsExceeded(measure("v", tt.bytes)); got != tt.exceeds {
			t.Errorf("%+v, %d bytes: exceeded %v", tt.budget, tt.bytes, got)
		}
		if got := tt.budget.InBytes(); got != tt.inBytes {
			t.Errorf("%+v: %d bytes", tt.budget, got)
		}
	}
}

func TestAMeterWarnsOncePerVersion(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var warned []string
	m := listcost.NewMeter(listcost.Budget{Bytes: 10}, func(l listcost.List) {
		mu.Lock()
		defer mu.Unlock()
		warned = append(warned, l.Version)
	})
	if m.Last().Tools != 0 {
		t.Error("a list before the first")
	}
	for _, l := range []listcost.List{measure("small", 3), measure("a", 11), measure("a", 11), measure("b", 5, 6), measure("a", 11), measure("small", 3)} {
		m.Listed(l)
		if m.Last().Version != l.Version {
			t.Errorf("the last is %s", m.Last().Version)
		}
	}
	if !slices.Equal(warned, []string{"a", "b"}) {
		t.Errorf("warned of %v", warned)
	}
	// What is remembered is bounded, and the oldest is forgotten first.
	for i := range 64 {
		m.Listed(measure(strconv.Itoa(i), 11))
	}
	warned = nil
	m.Listed(measure("63", 11))
	m.Listed(measure("a", 11))
	if !slices.Equal(warned, []string{"a"}) {
		t.Errorf("warned of %v", warned)
	}
}

func TestAMeterIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	n := 0
	m := listcost.NewMeter(listcost.Budget{Tokens: 1}, func(listcost.List) {
		mu.Lock()
		defer mu.Unlock()
		n++
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			m.Listed(measure("v", 100))
			_ = m.Last()
		})
	}
	all.Wait()
	if n != 1 {
		t.Errorf("warned %d times", n)
	}
}
