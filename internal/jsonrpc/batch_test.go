// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIsBatch(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{`[]`: true, " \n[": true, `{}`: false, ``: false, ` `: false, `"["`: false} {
		if IsBatch([]byte(raw)) != want {
			t.Errorf("IsBatch(%q) = %v", raw, !want)
		}
	}
}

func TestSplitBatch(t *testing.T) {
	t.Parallel()
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]" }
	tests := []struct {
		name, raw string
		most      int
		limits    Limits
		count     int
		sentinel  error
		code      FaultCode
	}{
		{"one", `[{}]`, 0, Limits{}, 1, nil, 0},
		{"what is no message is kept", ` [1, "a" ,null,[{}]] `, 0, Limits{}, 4, nil, 0},
		{"default limit", list(100), 0, Limits{}, 100, nil, 0},
		{"over the default limit", list(101), 0, Limits{}, 0, ErrBatchTooLarge, 0},
		{"limit set", list(3), 3, Limits{}, 3, nil, 0},
		{"limit set higher", list(500), 500, Limits{}, 500, nil, 0},
		{"over the limit set", list(4), 3, Limits{}, 0, ErrBatchTooLarge, 0},
		{"empty", ` [ ] `, 0, Limits{}, 0, errBatchEmpty, 0},
		{"an object", `{}`, 0, Limits{}, 0, nil, FaultEnvelope},
		{"truncated", `[{}`, 0, Limits{}, 0, nil, FaultParse},
		{"broken in the second", `[{"id":"1"},{"a":1,"a":2}]`, 0, Limits{}, 0, nil, FaultParse},
		{"trailing data", `[{}]]`, 0, Limits{}, 0, nil, FaultParse},
		{"too large", list(10), 0, Limits{MaxBytes: 10}, 0, nil, FaultTooLarge},
		{"a message at the depth limit", `[` + nested(64) + `]`, 0, Limits{}, 1, nil, 0},
		{"a message over the depth limit", `[` + nested(65) + `]`, 0, Limits{}, 0, nil, FaultParse},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := SplitBatch([]byte(test.raw), test.most, test.limits)
			var fault *Fault
			switch {
			case test.code != 0:
				if !errors.As(err, &fault) || fault.Code != test.code {
					t.Errorf("error %v, want a %v fault", err, test.code)
				}
			case !errors.Is(err, test.sentinel):
				t.Errorf("error %v, want %v", err, test.sentinel)
			}
			if len(got) != test.count {
				t.Errorf("%d messages, want %d", len(got), test.count)
			}
		})
	}
}

func TestSplitBatchContents(t *testing.T) {
	t.Parallel()
	messages, err := SplitBatch([]byte(`[ {"a": [1]} , 2,"[,]" ]`), 0, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, message := range messages {
		got = append(got, string(message))
	}
	if diff := cmp.Diff([]string{`{"a": [1]}`, `2`, `"[,]"`}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
