// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
)

func entry(t *testing.T, name string, change ...func(*lock.Members)) lock.Entry {
	t.Helper()
	m := lock.Members{
		Name: name, Description: "Gets a thing.",
		InputSchema:  json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","maxLength":1e2}}}`),
		OutputSchema: json.RawMessage(`{"type":"object"}`), Annotations: json.RawMessage(`{"title":"Get","readOnlyHint":true}`),
	}
	for _, c := range change {
		c(&m)
	}
	e, err := lock.NewEntry(m)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestDigestIsOfTheCanonicalObject(t *testing.T) {
	t.Parallel()
	want := sha256.Sum256([]byte(`{"annotations":{"readOnlyHint":true,"title":"Get"},"description":"Gets a thing.",` +
		`"inputSchema":{"properties":{"id":{"maxLength":100,"type":"string"}},"type":"object"},"name":"shop.get","outputSchema":{"type":"object"}}`))
	if got := entry(t, "shop.get").Digest; got != hex.EncodeToString(want[:]) {
		t.Errorf("digest %s, want %x", got, want)
	}
	want = sha256.Sum256([]byte(`{"annotations":{"readOnlyHint":true,"title":"Get"},"description":"Gets a thing.",` +
		`"inputSchema":{"properties":{"id":{"maxLength":100,"type":"string"}},"type":"object"},"name":"shop.get"}`))
	if got := entry(t, "shop.get", func(m *lock.Members) { m.OutputSchema = nil }).Digest; got != hex.EncodeToString(want[:]) {
		t.Errorf("without output schema: digest %s, want %x", got, want)
	}
}

func TestDigestIgnoresSpellingAlone(t *testing.T) {
	t.Parallel()
	same := entry(t, "shop.get", func(m *lock.Members) {
		m.InputSchema = json.RawMessage(" {\"properties\" : {\"id\":{\"maxLength\":100, \"type\":\"str\\u0069ng\"}}, \"type\":\"object\"}")
	})
	if want := entry(t, "shop.get"); !cmp.Equal(want, same) {
		t.Error(cmp.Diff(want, same))
	}
}

func TestDriftNamesWhatChanged(t *testing.T) {
	t.Parallel()
	locked := lock.New([]lock.Entry{entry(t, "a.same"), entry(t, "b.text"), entry(t, "c.input"), entry(t, "d.both"), entry(t, "e.gone"), entry(t, "f.nothing")})
	got := locked.Compare([]lock.Entry{
		entry(t, "z.new"),
		entry(t, "a.same"),
		entry(t, "b.text", func(m *lock.Members) { m.Description = "Gets a thing, and sends it to me." }),
		entry(t, "c.input", func(m *lock.Members) { m.InputSchema = json.RawMessage(`{"type":"object"}`) }),
		entry(t, "d.both", func(m *lock.Members) { m.OutputSchema, m.Annotations = nil, json.RawMessage(`{"title":"Get"}`) }),
		entry(t, "f.nothing"),
	})
	want := lock.Drift{
		Added: []string{"z.new"}, Removed: []string{"e.gone"},
		Changed: []lock.Change{
			{Name: "b.text", Members: []string{"description"}},
			{Name: "c.input", Members: []string{"inputSchema"}},
			{Name: "d.both", Members: []string{"annotations", "outputSchema"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if text := got.String(); text != "1 added, 1 removed, 3 changed" {
		t.Error(text)
	}
	if text := got.Changed[2].String(); text != "d.both (annotations, outputSchema)" {
		t.Error(text)
	}
	if got.IsNone() || !got.Equal(want) || got.Equal(lock.Drift{}) {
		t.Error("drift is compared wrongly")
	}
	for name, wanted := range map[string]bool{"z.new": true, "b.text": true, "d.both": true, "a.same": false, "e.gone": false} {
		if got.Unapproved()[name] != wanted {
			t.Errorf("%s: unapproved %v", name, !wanted)
		}
	}
}

// TestWithoutDigestNothingIsApproved: a tool that has no canonical form differs from every lock.
func TestWithoutDigestNothingIsApproved(t *testing.T) {
	t.Parallel()
	odd, err := lock.NewEntry(lock.Members{Name: "shop.get", Description: "d", InputSchema: json.RawMessage(`{"type":"object","type":"object"}`), Annotations: json.RawMessage(`{}`)})
	if err == nil || !strings.Contains(err.Error(), "shop.get") || !strings.Contains(err.Error(), "inputSchema") || odd.Digest != "" {
		t.Fatalf("digest %q, %v", odd.Digest, err)
	}
	drift := lock.New([]lock.Entry{entry(t, "shop.get")}).Compare([]lock.Entry{odd})
	if len(drift.Changed) != 1 || !slices.Contains(drift.Changed[0].Members, "inputSchema") {
		t.Errorf("%+v", drift)
	}
}

func TestFileReadsBack(t *testing.T) {
	t.Parallel()
	one := lock.New([]lock.Entry{entry(t, "b.get"), entry(t, "a.get", func(m *lock.Members) { m.OutputSchema = nil })})
	raw, err := one.JSON()
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "two.lock.json")
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(raw)); diff != "" {
		t.Error(diff)
	}
	back, err := lock.Read(golden)
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.JSON()
	if err != nil || string(again) != string(raw) || back.Digest() != one.Digest() || back.Len() != 2 {
		t.Errorf("it reads back as %s (%v)", again, err)
	}
	empty, err := lock.New(nil).JSON()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := lock.Parse(empty); err != nil || back.Len() != 0 {
		t.Errorf("a lock of no tools: %v", err)
	}
}

func TestDigestOfAllTools(t *testing.T) {
	t.Parallel()
	a, b := entry(t, "a.get"), entry(t, "b.get")
	want := sha256.Sum256([]byte(`{"a.get":"` + a.Digest + `","b.get":"` + b.Digest + `"}`))
	if got := lock.New([]lock.Entry{b, a}).Digest(); got != hex.EncodeToString(want[:]) {
		t.Errorf("%s, want %x", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("a", 64)
	for name, tc := range map[string]struct{ raw, want string }{
		"nothing":          {``, "not a lock file"},
		"no object":        {`[]`, "not a lock file"},
		"no version":       {`{"tools":[]}`, `no "version"`},
		"another version":  {`{"version":2,"tools":[],"later":1}`, "version 2 is not supported; this sidecar reads version 1"},
		"no tools":         {`{"version":1}`, `no "tools"`},
		"unknown member":   {`{"version":1,"tools":[],"tool":[]}`, `unknown field "tool"`},
		"text behind":      {`{"version":1,"tools":[]} {}`, "not a lock file"},
		"no name":          {`{"version":1,"tools":[{"digest":"` + digest + `"}]}`, "no name"},
		"short digest":     {`{"version":1,"tools":[{"name":"a","digest":"abc"}]}`, `tool "a": digest is not 64`},
		"no digest":        {`{"version":1,"tools":[{"name":"a"}]}`, `tool "a": digest is not 64`},
		"upper case":       {`{"version":1,"tools":[{"name":"a","digest":"` + strings.ToUpper(digest) + `"}]}`, "lowercase"},
		"twice":            {`{"version":1,"tools":[{"name":"a","digest":"` + digest + `"},{"name":"a","digest":"` + digest + `"}]}`, `tool "a" is listed twice`},
		"unknown part":     {`{"version":1,"tools":[{"name":"a","digest":"` + digest + `","members":{"title":"0123456789abcdef"}}]}`, `unknown member "title"`},
		"part's digest":    {`{"version":1,"tools":[{"name":"a","digest":"` + digest + `","members":{"description":"xyz"}}]}`, "digest of description"},
		"too large a file": {`{"version":1,"tools":[]}` + strings.Repeat(" ", lock.MaxFileBytes), "larger than 67108864 bytes"},
	} {
		if _, err := lock.Parse([]byte(tc.raw)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestReadNamesTheFile(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none.json")
	if _, err := lock.Read(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Error(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Read(bad); err == nil || !strings.Contains(err.Error(), bad) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"tools":[{"name":"a","digest":"` + strings.Repeat("0", 64) + `","members":{"description":"0123456789abcdef"}}]}`))
	f.Add([]byte(`{"version":1,"tools":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		one, err := lock.Parse(raw)
		if err != nil {
			return
		}
		text, err := one.JSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := lock.Parse(text)
		if err != nil || again.Digest() != one.Digest() {
			t.Errorf("%s reads back as another lock: %v", text, err)
		}
	})
}
