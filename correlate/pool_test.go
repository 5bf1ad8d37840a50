// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

func parse(t *testing.T, raw string) jsonrpc.Message {
	t.Helper()
	return jsonrpc.Parse([]byte(raw), jsonrpc.ProfileMCP, jsonrpc.Limits{})
}

func success(id jsonrpc.ID, result string) jsonrpc.Message {
	return jsonrpc.Message{Kind: jsonrpc.KindSuccess, ID: id, Result: []byte(result)}
}

func check(t *testing.T, step string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", step, got, want)
	}
}

func TestPool(t *testing.T) {
	t.Parallel()
	pool := NewPool(PoolOptions{})
	if _, ok := Match(one, pool); ok {
		t.Error("a match in an empty pool")
	}
	check(t, "deliver an unexpected response", pool.Deliver(success(one, `{}`)), ErrUnexpected)
	check(t, "expect", pool.Expect(one), nil)
	check(t, "expect twice", pool.Expect(one), ErrDuplicateID)
	if _, ok := Match(one, pool); ok {
		t.Error("a match before the response")
	}
	check(t, "deliver another type of id", pool.Deliver(success(jsonrpc.IntID(1), `{}`)), ErrUnexpected)
	escaped := parse(t, `{"jsonrpc":"2.0","id":"\u0031","result":{"n":1}}`)
	check(t, "deliver", pool.Deliver(escaped), nil)
	check(t, "deliver twice", pool.Deliver(success(one, `{"n":2}`)), ErrDuplicateResponse)
	check(t, "expect what is buffered", pool.Expect(one), ErrDuplicateID)
	got, ok := Match(one, pool)
	if !ok {
		t.Fatal("no match")
	}
	if diff := cmp.Diff(escaped, got, cmpopts.IgnoreUnexported(jsonrpc.Message{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, ok := Match(one, pool); ok {
		t.Error("matched twice")
	}
	check(t, "deliver after the match", pool.Deliver(escaped), ErrUnexpected)
	check(t, "expect again", pool.Expect(one), nil)
	if !pool.Forget(one) || pool.Forget(one) || pool.Len() != 0 {
		t.Error("Forget")
	}
}

func TestPeekLeavesTheResponse(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	pool := NewPool(PoolOptions{MaxAge: time.Minute, Now: func() time.Time { return now }})
	for _, nothing := range []struct {
		name string
		id   jsonrpc.ID
		pool *Pool
	}{{"nothing expected", one, pool}, {"no id", jsonrpc.ID{}, pool}, {"no pool", one, nil}} {
		if _, ok := Peek(nothing.id, nothing.pool); ok {
			t.Errorf("%s: a response", nothing.name)
		}
	}
	check(t, "expect", pool.Expect(one), nil)
	if _, ok := Peek(one, pool); ok {
		t.Error("a response before it has arrived")
	}
	check(t, "deliver", pool.Deliver(success(one, `{"n":1}`)), nil)
	now = now.Add(59 * time.Second)
	for range 2 {
		if got, ok := Peek(one, pool); !ok || got.Kind != jsonrpc.KindSuccess || string(got.Result) != `{"n":1}` {
			t.Errorf("got %s, %v", got.Result, ok)
		}
	}
	check(t, "deliver what was looked at", pool.Deliver(success(one, `{"n":2}`)), ErrDuplicateResponse)
	if got, ok := Match(one, pool); !ok || string(got.Result) != `{"n":1}` {
		t.Errorf("a match after Peek: %s, %v", got.Result, ok)
	}
	if _, ok := Peek(one, pool); ok || pool.Len() != 0 {
		t.Error("a response after the match")
	}
	// Looking does not keep a response alive.
	check(t, "expect again", pool.Expect(one), nil)
	check(t, "deliver again", pool.Deliver(success(one, `{}`)), nil)
	for range 2 {
		now = now.Add(30 * time.Second)
		_, _ = Peek(one, pool)
	}
	if _, ok := Match(one, pool); ok || pool.Len() != 0 {
		t.Error("a response beyond its age")
	}
}

func TestPoolKeepsCopies(t *testing.T) {
	t.Parallel()
	pool := NewPool(PoolOptions{})
	raw := []byte(`{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"declined","data":{"a":1}}}`)
	m := jsonrpc.Parse(raw, jsonrpc.ProfileMCP, jsonrpc.Limits{})
	check(t, "expect", pool.Expect(m.ID), nil)
	check(t, "deliver", pool.Deliver(m), nil)
	clear(raw) // as an edge does that reuses its buffers
	result := success(one, `{"a":1}`)
	check(t, "expect", pool.Expect(one), nil)
	check(t, "deliver", pool.Deliver(result), nil)
	clear(result.Result)
	if got, ok := Match(one, pool); !ok || string(got.Result) != `{"a":1}` {
		t.Errorf("got %s, %v", got.Result, ok)
	}
	got, ok := Match(jsonrpc.IntID(7), pool)
	if !ok || got.Kind != jsonrpc.KindError || got.Error.Message != "declined" || string(got.Error.Data) != `{"a":1}` {
		t.Errorf("got %+v, %v", got, ok)
	}
}

func TestPoolRefusesOtherMessages(t *testing.T) {
	t.Parallel()
	pool := NewPool(PoolOptions{})
	check(t, "expect", pool.Expect(one), nil)
	check(t, "expect nothing", pool.Expect(jsonrpc.ID{}), ErrNotResponse)
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":"1","method":"m"}`, `{"jsonrpc":"2.0","method":"m"}`,
		`{"jsonrpc":"2.0","error":{"code":1,"message":"no id"}}`, `{"jsonrpc":"2.0","id":"1","result":[]}`, `{"id":"1","result":{}}`, `{`,
	} {
		check(t, raw, pool.Deliver(parse(t, raw)), ErrNotResponse)
	}
	if _, ok := Match(jsonrpc.ID{}, pool); ok {
		t.Error("a match for no id")
	}
	if _, ok := Match(one, nil); ok {
		t.Error("a match in no pool")
	}
}

func TestPoolBounds(t *testing.T) {
	t.Parallel()
	pool := NewPool(PoolOptions{MaxEntries: 2, MaxBytes: 10})
	two, three := jsonrpc.StringID("2"), jsonrpc.StringID("3")
	check(t, "expect 1", pool.Expect(one), nil)
	check(t, "expect 2", pool.Expect(two), nil)
	check(t, "expect 3", pool.Expect(three), ErrPoolFull)
	check(t, "too large", pool.Deliver(success(one, `{"a":12345}`)), ErrPoolFull)
	check(t, "10 bytes", pool.Deliver(success(one, `{"a":1234}`)), nil)
	check(t, "1 more byte", pool.Deliver(success(two, `1`)), ErrPoolFull)
	if _, ok := Match(one, pool); !ok {
		t.Error("no match")
	}
	check(t, "now it fits", pool.Deliver(success(two, `{"a":1234}`)), nil)
	check(t, "expect 3", pool.Expect(three), nil)
	large := jsonrpc.Message{Kind: jsonrpc.KindError, ID: three, Error: &jsonrpc.ErrorObject{Message: "x"}}
	check(t, "the text of an error counts", pool.Deliver(large), ErrPoolFull)

	defaults := NewPool(PoolOptions{})
	for i := range DefaultPoolEntries {
		check(t, "expect", defaults.Expect(jsonrpc.IntID(int64(i))), nil)
	}
	check(t, "default entries", defaults.Expect(one), ErrPoolFull)
	check(t, "default bytes", defaults.Deliver(success(jsonrpc.IntID(1), string(make([]byte, DefaultPoolBytes+1)))), ErrPoolFull)
}

func TestPoolExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		two := jsonrpc.StringID("2")
		pool := NewPool(PoolOptions{MaxEntries: 2, MaxBytes: 2, MaxAge: time.Minute})
		check(t, "expect 1", pool.Expect(one), nil)
		time.Sleep(10 * time.Second)
		check(t, "expect 2", pool.Expect(two), nil)
		time.Sleep(40 * time.Second)
		check(t, "deliver 1", pool.Deliver(success(one, `{}`)), nil) // its age begins anew
		for _, step := range []struct {
			sleep time.Duration
			left  int
		}{{20*time.Second - 1, 2}, {1, 1}, {40*time.Second - 1, 1}, {1, 0}} {
			time.Sleep(step.sleep)
			if got := pool.Len(); got != step.left {
				t.Errorf("%d entries left, want %d", got, step.left)
			}
		}
		if _, ok := Match(one, pool); ok {
			t.Error("a match after a minute")
		}
		check(t, "deliver 2", pool.Deliver(success(two, `{}`)), ErrUnexpected)
		check(t, "the room is free again", pool.Expect(one), nil)
		check(t, "so are the bytes", pool.Deliver(success(one, `{}`)), nil)
		time.Sleep(DefaultPoolAge)
		if pool.Len() != 0 || pool.bytes != 0 {
			t.Errorf("%d entries, %d bytes left", pool.Len(), pool.bytes)
		}
	})
}

// TestPoolRace: each response is matched by exactly one of those who poll.
func TestPoolRace(t *testing.T) {
	t.Parallel()
	pool := NewPool(PoolOptions{})
	var got sync.Map
	var work sync.WaitGroup
	for i := range 200 {
		id := jsonrpc.IntID(int64(i))
		check(t, "expect", pool.Expect(id), nil)
		work.Go(func() { check(t, "deliver", pool.Deliver(success(id, strconv.Itoa(i))), nil) })
	}
	for range 4 {
		work.Go(func() {
			for left := true; left; left = pool.Len() > 0 {
				for i := range 200 {
					if m, ok := Match(jsonrpc.IntID(int64(i)), pool); ok {
						if _, twice := got.LoadOrStore(i, true); twice || string(m.Result) != strconv.Itoa(i) {
							t.Errorf("response %d: %s, twice: %v", i, m.Result, twice)
						}
					}
				}
			}
		})
	}
	work.Wait()
	for i := range 200 {
		if _, ok := got.Load(i); !ok {
			t.Errorf("response %d was lost", i)
		}
	}
}
