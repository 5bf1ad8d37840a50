// SPDX-License-Identifier: Apache-2.0

package errmap_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// Details have what a program had run, up to a bound, and not what a stream had sent.
func TestDetailsSayWhatAProgramHadRun(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, is, partial string
		want              bool
	}{
		{"a program", "These calls had run", `{"ran":[]}`, true},
		{"a stream", "", `{"items":[]}`, false},
		{"too much", "These calls had run", `{"ran":["` + strings.Repeat("x", 4096) + `"]}`, false},
	} {
		err := errmap.New(errmap.ResourceExhausted)
		err.Partial, err.PartialIs = []byte(tc.partial), tc.is
		got := string(err.Detail(errmap.About{}).GetErrorDetailsJson())
		if strings.HasSuffix(got, `,"partial":`+tc.partial+`}`) != tc.want || !tc.want && strings.Contains(got, "partial") {
			t.Errorf("%s: %s", tc.name, got)
		}
	}
}
