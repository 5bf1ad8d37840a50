// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"strings"
	"sync"
	"time"

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
	options, err := c.connecting()
	if err != nil {
		return nil, err
	}
	l := &link{denied: map[string]bool{}}
	options = append(options,
		nats.ConnectHandler(func(*nats.Conn) { c.wake() }),
		nats.ReconnectHandler(func(*nats.Conn) { c.moved(); c.wake() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.lost(l, err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.lost(l, err) }),
	)
	if err := l.connect(c.url, c.timeout, options); err != nil {
		return nil, err
	}
	return l, nil
}

// dialOnce opens a link to one of the servers of url now, or fails.
func (c *Client) dialOnce(url string) (*link, error) {
	options, err := c.connecting()
	if err != nil {
		return nil, err
	}
	l := &link{denied: map[string]bool{}}
	options = append(options, nats.RetryOnFailedConnect(false), nats.NoReconnect())
	if err := l.connect(url, c.timeout, options); err != nil {
		return nil, err
	}
	return l, nil
}

// connect makes the connection of a link.
func (l *link) connect(url string, timeout time.Duration, options []nats.Option) error {
	options = append(options, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.noteDenied(err) }))
	var err error
	if l.nc, err = nats.Connect(url, options...); err != nil {
		return err
	}
	if l.js, err = jetstream.New(l.nc, jetstream.WithDefaultTimeout(timeout)); err != nil {
		l.nc.Close()
		return err
	}
	return nil
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

// refusal returns a subject that the account may not publish on, of those that were tried; empty without one.
func (l *link) refusal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for subject := range l.denied {
		return subject
	}
	return ""
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
