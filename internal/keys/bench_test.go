// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

func BenchmarkSeal(b *testing.B) { benchmark(b, false) }

func BenchmarkOpen(b *testing.B) { benchmark(b, true) }

func benchmark(b *testing.B, open bool) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"task id", 96}, {"1 KiB", 1 << 10}, {"48 KiB", 48 << 10}} {
		b.Run(size.name, func(b *testing.B) {
			s := NewSealer(SealerOptions{Keys: keysOf(1, 2)})
			payload := bytes.Repeat([]byte("x"), size.bytes)
			token, err := s.Seal(alice(), payload)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size.bytes))
			b.ReportAllocs()
			for b.Loop() {
				if open {
					_, err = s.Open(alice(), token)
				} else {
					_, err = s.Seal(alice(), payload)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSpend measures a guard that forgets as much as it learns.
func BenchmarkSpend(b *testing.B) {
	c := newClock()
	s := NewSpent(SpentOptions{Now: c.now})
	var token [8]byte
	b.ReportAllocs()
	for b.Loop() {
		for i := range token {
			if token[i]++; token[i] != 0 {
				break
			}
		}
		c.advance(20 * time.Millisecond)
		if !spend(s, string(token[:]), c.t.Add(defaults.StateTTL)) {
			b.Fatal("refused")
		}
	}
}
