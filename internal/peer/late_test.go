// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// A connection that turns out to be HTTP/2 when its server is shut down already learns it too, and ends.
func TestAConnectionThatIsLateForTheShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &h2Conns{newServer(http.NotFoundHandler()), newBook()}
		all.shutdown()
		near, far := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			all.serve(newWatched(near, NewRefused(1<<20, nil), all.book), http.NotFoundHandler(), nil)
		}()
		framer := http2.NewFramer(io.Discard, far)
		var kinds []http2.FrameType
		begin := time.Now()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				break
			}
			kinds = append(kinds, frame.Header().Type)
		}
		<-served
		if took := time.Since(begin); took > 10*time.Second || len(kinds) < 2 || kinds[0] != http2.FrameSettings || kinds[len(kinds)-1] != http2.FrameGoAway {
			t.Errorf("it had %v, and ended after %v", kinds, took)
		}
		if err := far.Close(); err != nil {
			t.Error(err)
		}
	})
}
