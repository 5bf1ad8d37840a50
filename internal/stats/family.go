// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// family is the histograms of one metric by their attributes. Make one with newFamily.
type family[K comparable] struct {
	// series is replaced when attributes are seen for the first time, so that code that
	// counts takes no lock.
	series atomic.Pointer[map[K]*histogram]
	mu     sync.Mutex // held to replace series, and for bound
	// bound returns the attributes to count as, while there are so many series. It must
	// return one of a limited number, whatever it gets.
	bound func(key K, series int) K
}

func newFamily[K comparable](bound func(key K, series int) K) *family[K] {
	f := &family[K]{bound: bound}
	f.series.Store(&map[K]*histogram{})
	return f
}

// of returns the histogram to count a key in.
func (f *family[K]) of(key K) *histogram {
	if h, ok := (*f.series.Load())[key]; ok {
		return h
	}
	return f.newSeries(key)
}

func (f *family[K]) newSeries(key K) *histogram {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := *f.series.Load()
	key = f.bound(key, len(known))
	if h, ok := known[key]; ok {
		return h
	}
	more := maps.Clone(known)
	h := new(histogram)
	more[key] = h
	f.series.Store(&more)
	return h
}

// all returns the histograms. They must not be changed.
func (f *family[K]) all() map[K]*histogram { return *f.series.Load() }

// names are the values of one attribute, up to a number.
type names struct {
	most  int
	known map[string]string
}

func newNames(most int) *names { return &names{most, map[string]string{}} }

// bound returns the name, or AnyOther if there are too many others. It copies a name, which
// may be part of a message.
func (n *names) bound(name string) string {
	if name == "" {
		return ""
	}
	if kept, ok := n.known[name]; ok {
		return kept
	}
	if len(n.known) >= n.most {
		return AnyOther
	}
	kept := strings.Clone(name)
	n.known[kept] = kept
	return kept
}
