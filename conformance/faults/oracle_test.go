// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/faults"
)

// books is a set of books that agree.
type books struct {
	entries     []faults.Entry
	executions  []faults.Execution
	strays      []string
	disturbance faults.Disturbance
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// success is an answer with a nonce and a payload.
func success(nonce, payload string) caller.Answer {
	return caller.Answer{ID: `"` + nonce + `"`, Data: json.RawMessage(fmt.Sprintf(`{"nonce":%q,"payload":%q}`, nonce, payload))}
}

func failure(code string, retryable bool) caller.Answer {
	return caller.Answer{Fault: &caller.Fault{Code: code, Data: json.RawMessage(fmt.Sprintf(`{"code":%q,"retryable":%t}`, code, retryable))}}
}

// honest has a call of each kind: before, within and after a disturbance from
// the tenth to the twentieth second.
func honest() books {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	entry := func(nonce string, idempotent bool, sent int, a caller.Answer) faults.Entry {
		return faults.Entry{Nonce: nonce, Edge: "rpc", Method: "Echo", Idempotent: idempotent, Payload: "cGF5", Sent: at(sent), Done: at(sent + 1), Answers: []caller.Answer{a}}
	}
	gone := entry("left", false, 12, caller.Answer{Err: errors.New("cancelled")})
	gone.Leaves = time.Second
	hurried := entry("hurried", true, 25, failure(faults.Timeout, true)) // the sidecar's clock was before the caller's
	hurried.Leaves = time.Second + 900*time.Microsecond
	b := books{
		entries: []faults.Entry{
			entry("before", false, 1, success("before", "cGF5")),
			entry("unknown", false, 9, failure(faults.TransportError, false)),
			entry("again", true, 12, success("again", "cGF5")),
			entry("away", false, 13, failure(faults.Unavailable, true)),
			entry("slow", true, 14, failure(faults.Timeout, true)),
			gone,
			hurried,
			entry("after", true, 30, success("after", "cGF5")),
		},
		disturbance: faults.Disturbance{From: at(10), To: at(20), Codes: []string{faults.Unavailable, faults.TransportError, faults.Timeout}},
	}
	for _, nonce := range []string{"before", "unknown", "again", "again", "slow", "left", "hurried", "after"} {
		b.executions = append(b.executions, faults.Execution{Nonce: nonce, Method: "Echo"})
	}
	return b
}

func (b *books) call(nonce string) *faults.Entry {
	return &b.entries[slices.IndexFunc(b.entries, func(e faults.Entry) bool { return e.Nonce == nonce })]
}

func (b *books) run(nonce string) {
	b.executions = append(b.executions, faults.Execution{Nonce: nonce, Method: "Echo"})
}

func (b *books) forget(nonce string) {
	b.executions = slices.DeleteFunc(b.executions, func(x faults.Execution) bool { return x.Nonce == nonce })
}

// TestOracleCatchesLies falsifies books that agree, one entry at a time. Each
// lie must be found, and nothing else.
func TestOracleCatchesLies(t *testing.T) {
	t.Parallel()
	bounds := faults.Bounds{Attempts: 3, Longest: 5 * time.Second}
	audit := func(b books) []faults.Finding {
		return faults.Audit(b.entries, b.executions, b.strays, b.disturbance, bounds)
	}
	if found := audit(honest()); len(found) != 0 {
		t.Fatalf("honest books: %v", found)
	}
	for _, row := range []struct {
		name string
		lie  func(*books)
		rule faults.Rule
		of   string
	}{
		{"lost", func(b *books) { b.call("before").Answers = []caller.Answer{{Err: errors.New("the stream ended")}} }, faults.Unanswered, "before"},
		{"never answered", func(b *books) { b.call("before").Answers = nil }, faults.Unanswered, "before"},
		{"answered twice", func(b *books) {
			b.call("after").Answers = append(b.call("after").Answers, success("after", "cGF5"))
		}, faults.AnsweredTwice, "after"},
		{"two answers to one that left", func(b *books) {
			b.call("left").Answers = []caller.Answer{success("left", "cGF5"), success("left", "cGF5")}
		}, faults.AnsweredTwice, "left"},
		{"an unexpected answer", func(b *books) { b.strays = []string{`{"id":"before"}`} }, faults.Unasked, ""},
		{"crossed data", func(b *books) { b.call("before").Answers[0].Data = success("after", "cGF5").Data }, faults.Crossed, "before"},
		{"crossed id", func(b *books) { b.call("before").Answers[0].ID = `"after"` }, faults.Crossed, "before"},
		{"another nonce", func(b *books) { b.call("before").Answers[0].Data = success("befor", "cGF5").Data }, faults.Altered, "before"},
		{"another payload", func(b *books) { b.call("before").Answers[0] = success("before", "cGF4") }, faults.Altered, "before"},
		{"no payload", func(b *books) { b.call("before").Answers[0] = success("before", "") }, faults.Altered, "before"},
		{"half an answer", func(b *books) { b.call("before").Answers[0].Data = json.RawMessage(`{"nonce":"bef`) }, faults.Altered, "before"},
		{"success without an execution", func(b *books) { b.forget("before") }, faults.Invented, "before"},
		{"executed twice", func(b *books) { b.run("before") }, faults.Repeated, "before"},
		{"executed twice, outcome unknown", func(b *books) { b.run("unknown") }, faults.Repeated, "unknown"},
		{"executed twice for one that left", func(b *books) { b.run("left") }, faults.Repeated, "left"},
		{"executed too often although idempotent", func(b *books) { b.run("again"); b.run("again") }, faults.Repeated, "again"},
		{"executed, but said to be unavailable", func(b *books) { b.run("away") }, faults.Untrue, "away"},
		{"executed without a call", func(b *books) { b.run("ghost") }, faults.Unasked, "ghost"},
		{"failed before the fault", func(b *books) { b.call("before").Answers[0] = failure(faults.Unavailable, true) }, faults.WrongCode, "before"},
		{"failed after it", func(b *books) { b.call("after").Answers[0] = failure(faults.TransportError, true) }, faults.WrongCode, "after"},
		{"a code that is not one of the fault", func(b *books) { b.call("unknown").Answers[0] = failure("INTERNAL_ERROR", false) }, faults.WrongCode, "unknown"},
		{"a code in a fault that lets none fail", func(b *books) {
			b.disturbance.Codes = []string{faults.Unavailable, faults.Timeout}
		}, faults.WrongCode, "unknown"},
		{"told to repeat what does harm", func(b *books) { b.call("unknown").Answers[0] = failure(faults.TransportError, true) }, faults.WrongRetryable, "unknown"},
		{"told not to repeat what does none", func(b *books) { b.call("slow").Answers[0] = failure(faults.Timeout, false) }, faults.WrongRetryable, "slow"},
		{"told that its time is over when it is not", func(b *books) { b.call("hurried").Leaves = 2 * time.Second }, faults.WrongCode, "hurried"},
		{"late", func(b *books) { b.call("slow").Done = b.call("slow").Sent.Add(6 * time.Second) }, faults.Late, "slow"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := honest()
			row.lie(&b)
			found := audit(b)
			if len(found) != 1 || found[0].Rule != row.rule || found[0].Nonce != row.of {
				t.Errorf("found %v, want %s of %q", found, row.rule, row.of)
			}
		})
	}
}

// TestFaultsAreDocumented compares the list of faults with the table for people.
func TestFaultsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, documented []string
	for _, f := range faults.Faults(timeout) {
		short := ""
		if f.Short {
			short = "yes"
		}
		listed = append(listed, f.Name+":"+short)
	}
	_, table, _ := strings.Cut(string(page), "## The faults")
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) == 6 && !strings.HasPrefix(cells[1], "-") && cells[1] != " fault " {
			documented = append(documented, strings.TrimSpace(cells[1])+":"+strings.TrimSpace(cells[4]))
		}
	}
	if !slices.Equal(listed, documented) {
		t.Errorf("README.md has\n%q\nthe list has\n%q", documented, listed)
	}
}

// TestJournalOutlivesItsWriter writes with two writers one after the other, the
// first of which is never closed.
func TestJournalOutlivesItsWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	for i := range 2 {
		j, err := faults.OpenJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = j.Close() })
		if err := j.Begin("Echo", fmt.Sprintf("n%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := faults.ReadJournal(path)
	if err != nil || len(got) != 2 || got[0].Nonce != "n0" || got[1].Nonce != "n1" || got[0].Process == 0 || got[0].At.IsZero() {
		t.Errorf("%v, %v", got, err)
	}
}

// TestHalfALineIsNoExecution leaves half a line in the journal, as a process does that is
// killed while it writes, and as a reader sees it that is faster than the writer.
func TestHalfALineIsNoExecution(t *testing.T) {
	t.Parallel()
	for _, half := range []string{"{", `{"nonce":"n1","method":"Ec`, `{"nonce":"n1","method":"Echo"}`} {
		path := filepath.Join(t.TempDir(), "journal")
		begin(t, path, "n0")
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(half)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		got, err := faults.ReadJournal(path)
		if err != nil || len(got) != 1 || got[0].Nonce != "n0" {
			t.Errorf("%s: %v, %v", half, got, err)
		}
		begin(t, path, "n2")
		got, err = faults.ReadJournal(path)
		if err != nil || len(got) != 2 || got[1].Nonce != "n2" {
			t.Errorf("%s, and one line more: %v, %v", half, got, err)
		}
	}
}

// begin opens the journal as a process does and writes one execution down.
func begin(t *testing.T, path, nonce string) {
	t.Helper()
	j, err := faults.OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Begin("Echo", nonce), j.Close()); err != nil {
		t.Fatal(err)
	}
}
