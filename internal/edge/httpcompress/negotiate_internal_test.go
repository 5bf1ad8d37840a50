// SPDX-License-Identifier: Apache-2.0

package httpcompress

import (
	"slices"
	"strings"
	"testing"
)

func TestNegotiate(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]coding{
		"":                              noCoding,
		"gzip":                          gzipCoding,
		"x-gzip":                        gzipCoding,
		"GZIP":                          gzipCoding,
		"zstd":                          zstdCoding,
		"gzip, zstd":                    zstdCoding,
		"gzip, deflate, br, zstd":       zstdCoding,
		"gzip, deflate, br":             gzipCoding,
		"br":                            noCoding,
		"identity":                      noCoding,
		"*":                             zstdCoding,
		"*;q=0":                         noCoding,
		"gzip;q=0":                      noCoding,
		"gzip;q=0, *":                   zstdCoding,
		"zstd;q=0, *":                   gzipCoding,
		"zstd;q=0.5, gzip;q=0.6":        gzipCoding,
		"zstd;q=0.6, gzip;q=0.6":        zstdCoding,
		"zstd ; Q=0.1 , gzip ; q = 0.2": gzipCoding,
		"gzip;q=2":                      noCoding,
		"gzip;q=-1":                     noCoding,
		"gzip;q=NaN":                    noCoding,
		"gzip;q=x, zstd;q=":             noCoding,
		"gzip;level=3":                  gzipCoding,
		",,;;=,":                        noCoding,
	} {
		if got := negotiate([]string{header}); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
	if got := negotiate([]string{"gzip;q=0.5", "zstd;q=0.4"}); got != gzipCoding {
		t.Errorf("two lines: %v", got)
	}
	if got := negotiate(nil); got != noCoding {
		t.Errorf("none: %v", got)
	}
}

// FuzzNegotiate: what is chosen has been named, or a star represents it.
func FuzzNegotiate(f *testing.F) {
	for _, seed := range []string{"gzip", "gzip, zstd;q=0.5", "*;q=0.1", "identity;q=0", "a;q=1;b=2,gzip;q=,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got := negotiate([]string{header})
		if got == noCoding {
			return
		}
		text := strings.ToLower(header)
		if !slices.ContainsFunc([]string{got.String(), "*"}, func(s string) bool { return strings.Contains(text, s) }) {
			t.Errorf("%q: %v", header, got)
		}
	})
}
