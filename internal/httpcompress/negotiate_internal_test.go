// SPDX-License-Identifier: Apache-2.0

package httpcompress

import (
	"slices"
	"strings"
	"testing"
)

func TestNegotiate(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]Encoding{
		"":                              Identity,
		"gzip":                          Gzip,
		"x-gzip":                        Gzip,
		"GZIP":                          Gzip,
		"zstd":                          Zstd,
		"gzip, zstd":                    Zstd,
		"gzip, deflate, br, zstd":       Zstd,
		"gzip, deflate, br":             Gzip,
		"br":                            Identity,
		"identity":                      Identity,
		"*":                             Zstd,
		"*;q=0":                         Identity,
		"gzip;q=0":                      Identity,
		"gzip;q=0, *":                   Zstd,
		"zstd;q=0, *":                   Gzip,
		"zstd;q=0.5, gzip;q=0.6":        Gzip,
		"zstd;q=0.6, gzip;q=0.6":        Zstd,
		"zstd ; Q=0.1 , gzip ; q = 0.2": Gzip,
		"gzip;q=2":                      Identity,
		"gzip;q=-1":                     Identity,
		"gzip;q=NaN":                    Identity,
		"gzip;q=x, zstd;q=":             Identity,
		"gzip;level=3":                  Gzip,
		",,;;=,":                        Identity,
	} {
		if got := negotiate([]string{header}); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
	if got := negotiate([]string{"gzip;q=0.5", "zstd;q=0.4"}); got != Gzip {
		t.Errorf("two lines: %v", got)
	}
	if got := negotiate(nil); got != Identity {
		t.Errorf("none: %v", got)
	}
}

// FuzzNegotiate: what is chosen has been named, or a star stands for it.
func FuzzNegotiate(f *testing.F) {
	for _, seed := range []string{"gzip", "gzip, zstd;q=0.5", "*;q=0.1", "identity;q=0", "a;q=1;b=2,gzip;q=,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got := negotiate([]string{header})
		if got == Identity {
			return
		}
		text := strings.ToLower(header)
		if !slices.ContainsFunc([]string{got.String(), "*"}, func(s string) bool { return strings.Contains(text, s) }) {
			t.Errorf("%q: %v", header, got)
		}
	})
}
