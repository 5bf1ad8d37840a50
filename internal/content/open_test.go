// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// The schema is not read for each of many members that are left out in any case.
func TestManyMembersThatTheSchemaDoesNotName(t *testing.T) {
	t.Parallel()
	var properties, members strings.Builder
	for i := range 1_500 {
		fmt.Fprintf(&properties, `"field%d":{"type":"string","description":"xxxxxxxx"},`, i)
	}
	for i := range 60_000 {
		fmt.Fprintf(&members, `"m%d":{"a":"12345678"},`, i)
	}
	of := schema.ViewOf([]byte(`{"type":"object","properties":{` + strings.TrimSuffix(properties.String(), ",") + `}}`))
	document := []byte("{" + strings.TrimSuffix(members.String(), ",") + "}")
	begin := time.Now()
	out, report, ok := content.AppendCut(nil, document, 500, of)
	if !ok || len(out) > 500 || len(report.Cuts)+report.More == 0 {
		t.Errorf("%d bytes, %+v, %v", len(out), report, ok)
	}
	// It takes 0.1 s, and 1 s with the race detector. It took 12 s, and over a minute.
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("%v", took)
	}
}
