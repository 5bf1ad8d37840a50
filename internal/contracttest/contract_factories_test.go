// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// TestContractOfTheFactories has the sentences about what makes messages.
func TestContractOfTheFactories(t *testing.T) {
	t.Parallel()
	g := contracttest.NewGenerator(contracttest.GeneratorOptions{})
	request := func(t testing.TB) jsonrpc.Message {
		t.Helper()
		m, err := g.NewRequest("m", nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	bytesOf := func(t testing.TB, m jsonrpc.Message, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return string(contracttest.AppendTo(nil, m))
	}

	t.Run("a request has a fresh unique id, a UUIDv7", func(t *testing.T) {
		t.Parallel()
		seen := map[jsonrpc.ID]bool{}
		for range 1000 {
			m := request(t)
			id, err := uuid.Parse(textOf(t, m.ID))
			if err != nil || id.Version() != 7 || seen[m.ID] {
				t.Fatalf("%s: %v, seen before: %v", m.ID, err, seen[m.ID])
			}
			seen[m.ID] = true
		}
	})

	t.Run("an id is prefixed by its entity type where one is given", func(t *testing.T) {
		t.Parallel()
		text := textOf(t, g.NewID("call"))
		rest, ok := strings.CutPrefix(text, "call_")
		if _, err := uuid.Parse(rest); err != nil || !ok {
			t.Errorf("%s: %v", text, err)
		}
	})

	t.Run("the generator can be injected", func(t *testing.T) {
		t.Parallel()
		fixed := func() *contracttest.Generator {
			return contracttest.NewGenerator(contracttest.GeneratorOptions{Now: func() time.Time { return time.UnixMilli(1) }, Random: func() uint64 { return 2 }})
		}
		one, err := fixed().NewRequest("m", nil)
		if err != nil {
			t.Fatal(err)
		}
		two, err := fixed().NewRequest("m", nil)
		if err != nil || one.ID != two.ID {
			t.Errorf("%s and %s, %v", one.ID, two.ID, err)
		}
	})

	t.Run("jsonrpc is stamped on every message", func(t *testing.T) {
		t.Parallel()
		asked := request(t)
		notification, err := contracttest.NewNotification("m", nil)
		success, errSuccess := contracttest.NewSuccess(asked, nil)
		failure, errFailure := contracttest.NewError(asked, 1, "", nil)
		for _, raw := range []string{
			bytesOf(t, asked, nil), bytesOf(t, notification, err), bytesOf(t, success, errSuccess), bytesOf(t, failure, errFailure),
		} {
			if version, _ := jsontext.Lookup([]byte(raw), "jsonrpc"); string(version) != `"2.0"` {
				t.Errorf("%s", raw)
			}
		}
	})

	t.Run("no params of a request are an empty object", func(t *testing.T) {
		t.Parallel()
		raw := bytesOf(t, request(t), nil)
		if params, ok := jsontext.Lookup([]byte(raw), "params"); !ok || string(params) != `{}` {
			t.Errorf("%s", raw)
		}
	})

	t.Run("a deterministic id is a bare UUID, whatever the entity type", func(t *testing.T) {
		t.Parallel()
		fixed := contracttest.NewGenerator(contracttest.GeneratorOptions{Deterministic: true})
		for _, entity := range []string{"", "call", "a_b"} {
			text := textOf(t, fixed.NewID(entity))
			if id, err := uuid.Parse(text); err != nil || id.String() != text {
				t.Errorf("%q for %q: %v", text, entity, err)
			}
		}
	})

	t.Run("a notification never has an id", func(t *testing.T) {
		t.Parallel()
		for _, params := range []string{`{}`, `{"id":"1"}`} {
			m, err := contracttest.NewNotification("m", []byte(params))
			raw := bytesOf(t, m, err)
			if _, ok := jsontext.Lookup([]byte(raw), "id"); ok || !m.ID.IsZero() {
				t.Errorf("%s", raw)
			}
		}
	})

	t.Run("an error response has code, message and data where there are some", func(t *testing.T) {
		t.Parallel()
		asked := request(t)
		for data, want := range map[string]string{
			``:        `{"code":-32001,"message":"no"}`,
			`{"a":1}`: `{"code":-32001,"message":"no","data":{"a":1}}`,
		} {
			var payload []byte
			if data != "" {
				payload = []byte(data)
			}
			m, err := contracttest.NewError(asked, -32001, "no", payload)
			raw := bytesOf(t, m, err)
			if got, _ := jsontext.Lookup([]byte(raw), "error"); string(got) != want {
				t.Errorf("%s, want %s", raw, want)
			}
		}
	})

	t.Run("a response has its request's id with its JSON type", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			id := jsonrpc.StringID(rapid.String().Draw(t, "text"))
			if rapid.Bool().Draw(t, "number") {
				id = jsonrpc.IntID(rapid.Int64().Draw(t, "id"))
			}
			asked, err := contracttest.NewRequest(id, "m", nil)
			if err != nil {
				return // too long to be an id
			}
			success, errSuccess := contracttest.NewSuccess(asked, nil)
			failure, errFailure := contracttest.NewError(asked, 1, "", nil)
			if errSuccess != nil || errFailure != nil {
				t.Fatal(errSuccess, errFailure)
			}
			for _, m := range []jsonrpc.Message{success, failure} {
				raw := contracttest.AppendTo(nil, m)
				if got, _ := jsontext.Lookup(raw, "id"); string(got) != string(asked.ID.Raw()) {
					t.Fatalf("request %s is answered as %s", asked.ID, got)
				}
			}
		})
	})

	t.Run("no id is generated twice across 8 goroutines", func(t *testing.T) {
		t.Parallel()
		// BenchmarkTenMillionIDs draws as many as the contract names.
		if n := repetitions(draw(contracttest.NewGenerator(contracttest.GeneratorOptions{}), 8, 50_000)); n != 0 {
			t.Errorf("%d ids were made twice", n)
		}
	})
}
