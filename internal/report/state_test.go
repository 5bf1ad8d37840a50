// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/report"
)

const hidden = "s3cret"

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// values has a value of each kind, with what callers sent in every place that can have it.
func values(t *testing.T) map[string][]byte {
	t.Helper()
	text := []byte(`{"text":"` + hidden + `"}`)
	return map[string][]byte{
		"tasks": marshal(t, &statev1.TaskRecord{
			Id: "t_1", Principal: "alice", Tool: "shop.look", Owner: "0123", Origin: []byte(hidden),
			Task: &outriggerv1.Task{
				TaskId: "t_1", Status: outriggerv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED, CreatedAt: timestamppb.New(time.Unix(1000, 0)),
				Completion: &outriggerv1.Task_Error{Error: &outriggerv1.ErrorObject{Code: -32000, Message: "failed", DataForm: &outriggerv1.ErrorObject_DataJson{DataJson: text}}},
				InputRequests: map[string]*outriggerv1.InputRequest{"q": {Request: &outriggerv1.InputRequest_Elicitation{
					Elicitation: &outriggerv1.Elicitation{Message: hidden},
				}}},
			},
			Answers: map[string]*outriggerv1.InputResponse{"a": {Response: &outriggerv1.InputResponse_OtherJson{OtherJson: text}}},
			Again: marshal(t, &statev1.TaskCall{
				Tool: "shop.look", Wire: []byte(hidden), Header: []byte(hidden), Items: [][]byte{[]byte(hidden)},
				Headers: []*statev1.Header{{Name: "x-tenant", Values: []string{hidden}}},
			}),
		}),
		"ended":    nil,
		"owners":   []byte("host-1"),
		"consents": []byte("0123456789abcdef"),
		"answers":  marshal(t, &statev1.AnswerRecord{Request: []byte("0123456789abcdef"), Result: text}),
		"registrations": marshal(t, &statev1.RegistrationRecord{
			Name: "shop.peek", Version: "1.0.0", InputSchema: []byte(`{"type":"object"}`), Examples: []*outriggerv1.ToolExample{{Name: "e", ArgumentsJson: string(text)}},
		}),
		"switches": []byte("trusted"),
		"events":   marshal(t, &statev1.EventRecord{Method: "orders/changed", Params: text}),
		"approvals": marshal(t, &statev1.ApprovalRecord{
			Id: "a-1", Tool: "shop.pay", Requester: "ann", Rule: "large", State: "waiting", ArgumentsJson: text, Preview: hidden,
			Call: &statev1.TaskCall{Wire: []byte(hidden)},
		}),
	}
}

// TestDocuments: a document has what callers sent only if it is asked for, and says what it hides.
func TestDocuments(t *testing.T) {
	t.Parallel()
	all := values(t)
	for _, kind := range report.StateKinds() {
		value, ok := all[kind.Name]
		if !ok {
			t.Errorf("%s: no value to test with", kind.Name)
			continue
		}
		row, err := kind.Row(value, time.Unix(1060, 0))
		if err != nil || len(row) != len(kind.Columns) {
			t.Errorf("%s: %d columns have the values %q: %v", kind.Name, len(kind.Columns), row, err)
		}
		closed, redacted, err := kind.Document(value, false)
		if err != nil {
			t.Errorf("%s: %v", kind.Name, err)
		}
		for _, text := range []string{string(closed), strings.Join(row, " ")} {
			if strings.Contains(text, hidden) || strings.Contains(text, "czNjcmV0") {
				t.Errorf("%s shows what is to be hidden: %s", kind.Name, text)
			}
		}
		open, _, err := kind.Document(value, true)
		if err != nil || len(redacted) > 0 && string(open) == string(closed) {
			t.Errorf("%s: nothing is revealed: %v", kind.Name, err)
		}
	}
	tasks, _ := report.FindStateKind("tasks")
	row, err := tasks.Row(all["tasks"], time.Unix(1060, 0))
	if want := "input_required shop.look 0123 1m0s"; err != nil || strings.Join(row, " ") != want {
		t.Errorf("%q, want %q: %v", row, want, err)
	}
	_, redacted, err := tasks.Document(all["tasks"], false)
	if want := "task.error.data_json task.input_requests answers origin again.wire again.header again.items again.headers"; err != nil || strings.Join(redacted, " ") != want {
		t.Errorf("redacted %q, want %q: %v", redacted, want, err)
	}
}

// TestValuesOfOthers: a value that is something else is an error, never a panic.
func TestValuesOfOthers(t *testing.T) {
	t.Parallel()
	for _, kind := range report.StateKinds() {
		for _, value := range [][]byte{nil, {0xff}, []byte("\x0a\xff\xff\xff\xff"), []byte(hidden)} {
			_, rowErr := kind.Row(value, time.Now())
			_, _, err := kind.Document(value, false)
			if (rowErr == nil) != (err == nil) {
				t.Errorf("%s: %x: %v, %v", kind.Name, value, rowErr, err)
			}
		}
	}
	if _, ok := report.FindStateKind("nothing"); ok {
		t.Error("found a kind that there is not")
	}
}
