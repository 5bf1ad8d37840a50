// SPDX-License-Identifier: Apache-2.0

package taskstore

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestRecordsStayReadable reads a record of the first release, and one of a later release
// with a field that this one does not know. Never update the golden file.
func TestRecordsStayReadable(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0).UTC()
	want := task.Record{
		ID: "t_1", Principal: "alice", Tool: "shop.look", Origin: []byte{1}, Keep: time.Hour, Expires: at.Add(time.Hour), Owner: "replica", Again: []byte("call"),
		Takeovers: 2, Timeout: time.Minute, Idempotent: true, Version: 7,
		Task: &outriggerv1.Task{TaskId: "t_1", Status: outriggerv1.TaskStatus_TASK_STATUS_WORKING, StatusMessage: "half", CreatedAt: timestamppb.New(at)},
	}
	golden := filepath.Join("testdata", "record_v1.hex")
	if *update {
		stored, err := encode(&want)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(hex.EncodeToString(stored)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	newer := protowire.AppendString(protowire.AppendTag(append([]byte(nil), stored...), 4000, protowire.BytesType), "news")
	for _, bytes := range [][]byte{stored, newer} {
		got, err := decode(bytes, 7)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if _, err := decode([]byte{0xff}, 1); err == nil {
		t.Error("nonsense was read")
	}
}
