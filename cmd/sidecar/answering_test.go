// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

func TestAnsweringWaitsForAnswersAndNotForStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAnswering()
		h := a.wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			d, err := time.ParseDuration(r.Header.Get("Takes"))
			if err != nil {
				t.Error(err)
			}
			time.Sleep(d)
		}))
		serve := func(method, path, takes string) {
			r := httptest.NewRequest(method, path, nil)
			r.Header.Set("Takes", takes)
			go h.ServeHTTP(httptest.NewRecorder(), r)
		}
		serve("POST", "/mcp", "2s")
		serve("POST", "/rpc", "3s")
		serve("GET", "/mcp", "1m")
		for _, path := range []string{
			outriggerv1connect.ToolServiceExchangeProcedure, outriggerv1connect.ToolServiceSubscribeProcedure,
			outriggerv1connect.ToolServiceWatchToolsProcedure, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		} {
			serve("POST", path, "1m")
		}
		synctest.Wait()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		a.wait(ctx)
		cancel()
		if took := time.Since(start); took != time.Second {
			t.Errorf("an impatient wait took %v", took)
		}
		a.wait(t.Context())
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("the wait took %v", took)
		}
		a.wait(t.Context()) // there is nothing to wait for
		time.Sleep(time.Minute)
	})
}
