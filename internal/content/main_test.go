// SPDX-License-Identifier: Apache-2.0

package content

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parse fills a message from its text format.
func parse[T proto.Message](t testing.TB, into T, text string) T {
	t.Helper()
	if err := prototext.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return into
}

// Bounds of the contract, as these tests know them; the code reads them from the rules.
const (
	maxNameBytes      = 1024
	maxURIBytes       = 8192
	maxSentencesBytes = 16384
	maxTextBytes      = 65536
	maxSettingsBytes  = 65536
	maxValueBytes     = 1 << 20
	maxAnswers        = 64
	maxItems          = 1024
	maxPairs          = 256
)
