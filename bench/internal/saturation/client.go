// SPDX-License-Identifier: Apache-2.0

package saturation

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// outcome is what became of a call.
type outcome uint8

const (
	// answered: the result of this very call.
	answered outcome = iota
	// rejected: an error with a canonical code that says "not now".
	rejected
	// toolError: the tool's own error.
	toolError
	// failed: no answer. The connection was closed, or the client's timeout passed.
	failed
)

// ErrWrongAnswer tells that an answer belongs to another call, or is none.
var ErrWrongAnswer = errors.New("wrong answer")

// clientTimeout is how long a client waits for an answer.
const clientTimeout = 10 * time.Second

// message is a request on HTTP/1.1 in parts: what is before the id, between id and nonce, and after the nonce. Ids
// and nonces have one length, so that Content-Length is the same for every call.
type message struct {
	addr string
	// head ends where the body begins.
	head                  []byte
	beforeID, beforeNonce []byte
	afterNonce            []byte
	// hasID: the message is JSON-RPC; one for the proxy has no id.
	hasID bool
}

// idLength and nonceLength are those of every call.
const (
	idLength    = 10
	nonceLength = 24
)

// client makes one call after the other on one connection, which it opens again when it was closed. It is for one
// goroutine.
type client struct {
	*message

	number int
	calls  uint64
	conn   net.Conn
	in     *bufio.Reader
	out    []byte
	body   bytes.Buffer
	id     []byte
	nonce  []byte
}

func (m *message) client(number int) *client { return &client{message: m, number: number} }

// next makes the id and the nonce of the next call. All clients use the same ids on purpose.
func (c *client) next() {
	c.calls++
	c.id = padded(c.id[:0], c.calls, idLength)
	c.nonce = append(padded(c.nonce[:0], uint64(c.number), nonceLength-idLength-1), '-')
	c.nonce = append(c.nonce, c.id...)
}

// padded appends n with zeros in front.
func padded(to []byte, n uint64, width int) []byte {
	digits := strconv.AppendUint(make([]byte, 0, 20), n, 10)
	for range width - len(digits) {
		to = append(to, '0')
	}
	return append(to, digits...)
}

// dial opens the connection if there is none.
func (c *client) dial(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: clientTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err //nolint:wrapcheck // it counts as a failed call
	}
	c.conn, c.in = conn, bufio.NewReaderSize(conn, 4<<10)
	return nil
}

// close ends the connection.
func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// call makes one call. An error is a wrong answer, which ends the run; whatever a server under load may do is an
// outcome.
func (c *client) call(ctx context.Context) (outcome, error) {
	c.next()
	status, err := c.exchange(ctx)
	if err != nil {
		c.close()
		return failed, nil //nolint:nilerr // no answer is an outcome
	}
	return c.judge(status, c.body.Bytes())
}

// exchange sends a request and reads its answer into c.body.
func (c *client) exchange(ctx context.Context) (status int, err error) {
	if err := c.dial(ctx); err != nil {
		return 0, err
	}
	c.out = append(c.out[:0], c.head...)
	c.out = append(c.out, c.beforeID...)
	if c.hasID {
		c.out = append(c.out, c.id...)
	}
	c.out = append(c.out, c.beforeNonce...)
	c.out = append(c.out, c.nonce...)
	c.out = append(c.out, c.afterNonce...)
	if err := c.conn.SetDeadline(time.Now().Add(clientTimeout)); err != nil {
		return 0, err //nolint:wrapcheck // it counts as a failed call
	}
	// A server may answer and close before it has read all: the answer counts.
	_, sendErr := c.conn.Write(c.out)
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, err //nolint:wrapcheck // it counts as a failed call
	}
	c.body.Reset()
	_, err = c.body.ReadFrom(answer.Body)
	_ = answer.Body.Close()
	if answer.Close || sendErr != nil {
		c.close()
	}
	return answer.StatusCode, errors.Join(err, ctx.Err())
}

// judge reads an answer.
func (c *client) judge(status int, body []byte) (outcome, error) {
	if !c.hasID { // the proxy
		switch {
		case status == http.StatusOK && bytes.Contains(body, c.nonce):
			return answered, nil
		case status >= http.StatusInternalServerError:
			return rejected, nil
		}
		return failed, c.wrong(status, body)
	}
	own := bytes.Contains(body, slices.Concat([]byte(`"id":"`), c.id, []byte(`"`)))
	if !own && bytes.Contains(body, []byte(`"id":"`)) {
		return failed, c.wrong(status, body)
	}
	switch {
	case own && bytes.Contains(body, slices.Concat([]byte(`"nonce":"`), c.nonce, []byte(`"`))):
		return answered, nil
	case notNow(body):
		return rejected, nil
	case own && bytes.Contains(body, []byte(`"isError":true`)):
		return toolError, nil
	case status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests:
		return rejected, nil
	}
	return failed, c.wrong(status, body)
}

// notNow finds the canonical codes of errors that load explains.
func notNow(body []byte) bool {
	for _, code := range []string{"UNAVAILABLE", "RATE_LIMITED", "TIMEOUT"} {
		if bytes.Contains(body, []byte(`"`+code+`"`)) {
			return true
		}
	}
	return false
}

func (c *client) wrong(status int, body []byte) error {
	const most = 400 // bytes that fit a terminal
	return fmt.Errorf("%w to id %s, nonce %s: status %d, %s", ErrWrongAnswer, c.id, c.nonce, status, body[:min(most, len(body))])
}
