// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
)

// link is one connection to NATS, which lives until the files that it was made of change.
type link struct {
	nc *nats.Conn
	js jetstream.JetStream

	mu sync.Mutex
	// denied are the subjects that the account may not publish on, as far as they were
	// tried: NATS says so beside the answer, which never comes.
	denied map[string]bool
}

// dial opens a link. It needs no server: the link connects when there is one.
func (c *Client) dial() (*link, error) {
	options, err := c.opts.connecting()
	if err != nil {
		return nil, err
	}
	l := &link{denied: map[string]bool{}}
	options = append(options,
		nats.ConnectHandler(func(*nats.Conn) { c.wake() }),
		nats.ReconnectHandler(func(*nats.Conn) { c.moved(); c.wake() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.lost(l, err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.lost(l, err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.noteDenied(err) }),
	)
	if l.nc, err = nats.Connect(c.opts.URL, options...); err != nil {
		return nil, err
	}
	if l.js, err = jetstream.New(l.nc, jetstream.WithDefaultTimeout(c.opts.Timeout)); err != nil {
		l.nc.Close()
		return nil, err
	}
	return l, nil
}

// maxDenied bounds what is remembered of refusals: more subjects than are ever used.
const maxDenied = 256

// noteDenied remembers the subject of a refusal.
func (l *link) noteDenied(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	_, quoted, _ := strings.Cut(err.Error(), `"`)
	subject, _, _ := strings.Cut(quoted, `"`)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.denied) < maxDenied {
		l.denied[subject] = true
	}
}

// isDenied reports whether the account may not publish on a subject.
func (l *link) isDenied(subject string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.denied[subject]
}

// forgive forgets refusals, before something is tried again.
func (l *link) forgive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.denied)
}

// checkCredentials reports what is wrong with a credentials file, and shows nothing of it.
func checkCredentials(text []byte) error {
	if _, err := nkeys.ParseDecoratedJWT(text); err != nil {
		return errors.New("it has no user JWT; make it with `nsc generate creds`")
	}
	key, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return errors.New("it has no NKey seed of a user; make it with `nsc generate creds`")
	}
	key.Wipe()
	return nil
}
