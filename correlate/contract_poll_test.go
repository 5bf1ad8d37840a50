// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// TestContractOfPolling has the sentence about buffered responses.
func TestContractOfPolling(t *testing.T) {
	t.Parallel()
	waiting := func(t *testing.T) *Pool {
		t.Helper()
		pool := NewPool(PoolOptions{})
		check(t, "expect", pool.Expect(one), nil)
		return pool
	}

	t.Run("a response that is a success is matched by its id", func(t *testing.T) {
		t.Parallel()
		pool := waiting(t)
		check(t, "deliver", pool.Deliver(success(one, `{"a":1}`)), nil)
		if m, ok := Match(one, pool); !ok || m.Kind != jsonrpc.KindSuccess || string(m.Result) != `{"a":1}` {
			t.Errorf("%+v, %v", m, ok)
		}
	})

	t.Run("a response that is an error is matched by its id", func(t *testing.T) {
		t.Parallel()
		pool := waiting(t)
		check(t, "deliver", pool.Deliver(parse(t, `{"jsonrpc":"2.0","id":"1","error":{"code":-5,"message":"no"}}`)), nil)
		if m, ok := Match(one, pool); !ok || m.Kind != jsonrpc.KindError || m.Error.Code != -5 {
			t.Errorf("%+v, %v", m, ok)
		}
	})

	t.Run("there is nothing yet before the response, under another id and after the match", func(t *testing.T) {
		t.Parallel()
		pool := waiting(t)
		if _, ok := Match(one, pool); ok {
			t.Error("a match before the response")
		}
		check(t, "deliver", pool.Deliver(success(one, `{}`)), nil)
		if _, ok := Match(jsonrpc.IntID(1), pool); ok {
			t.Error("a match under an id of another type")
		}
		if _, ok := Match(one, pool); !ok {
			t.Error("no match")
		}
		if _, ok := Match(one, pool); ok {
			t.Error("a second match")
		}
	})

	t.Run("polling never blocks", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			pool := NewPool(PoolOptions{})
			check(t, "expect", pool.Expect(one), nil)
			began := time.Now() // is stopped without a waiter
			for range 1000 {
				if _, ok := Match(one, pool); ok {
					t.Fatal("a match before the response")
				}
			}
			if waited := time.Since(began); waited != 0 {
				t.Errorf("a thousand polls waited %v", waited)
			}
		})
	})
}
