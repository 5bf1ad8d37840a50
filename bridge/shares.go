// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/share"
)

// OpenStream takes a place for a stream that lasts until somebody ends it: a
// stream of changes, a GET stream, an exchange, a subscription. What it returns
// gives the place back, and has to be called once.
func (b *Bridge) OpenStream(caller string) (release func(), err *errmap.Error) {
	switch b.opts.Streams.Take(caller) {
	case share.Full:
		return nil, errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: too many streams are open (--max-streams)"))
	case share.Over:
		return nil, errmap.OverShare("this caller has its share of the open streams (--max-streams, --caller-share)")
	case share.Granted:
	}
	return func() { b.opts.Streams.Give(caller) }, nil
}
