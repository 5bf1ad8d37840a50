// SPDX-License-Identifier: Apache-2.0

// Package webhook tells HTTP endpoints of calls that wait for approval, and of how they were decided.
//
// A message is signed by the scheme of Standard Webhooks, and has no arguments and no results. It is sent again until the endpoint
// answers with a status of 2xx, a bounded number of times; so it can arrive more than once, and after a later one. Its id is the same
// each time.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

const (
	// attempts is how often a message is sent at most: with waits from firstWait, four times as long each time, up to longestWait, the
	// last one is sent within half an hour.
	attempts               = 7
	firstWait, longestWait = 2 * time.Second, 10 * time.Minute
	// attemptTime bounds one attempt.
	attemptTime = 10 * time.Second
	// maxQueued bounds the messages that wait for one endpoint.
	maxQueued = 256
	// maxAnswer bounds what is read of an answer, for the connection to be used again.
	maxAnswer = 4 << 10
	// minKey and maxKey bound a secret, as Standard Webhooks wants it; maxFile the file of one.
	minKey, maxKey, maxFile = 24, 64, 4 << 10
)

// Options configure a [Sender].
type Options struct {
	// Config has the endpoints. It has passed [Check].
	Config *configv1.Config
	Log    *zap.Logger
	// Transport, if set, is used in place of the network.
	Transport http.RoundTripper
}

// Sender sends messages to all endpoints. Make one with [New]; nil has no endpoints. It is safe for concurrent use.
type Sender struct {
	log       *zap.Logger
	client    *http.Client
	endpoints []*endpoint

	delivered, failed, givenUp, dropped atomic.Uint64
}

// Stats are the counts of a [Sender].
type Stats struct {
	// Delivered, GivenUp and Dropped count messages once for each endpoint: accepted, not accepted after all attempts, and not sent
	// because too many waited. Failed counts attempts.
	Delivered, GivenUp, Dropped, Failed uint64
	// Queued is how many wait.
	Queued int
}

// endpoint is one URL, with the messages that wait for it.
type endpoint struct {
	url, name, file string
	key             atomic.Pointer[[]byte]

	mu     sync.Mutex
	queued []*delivery
	// wake has a value after a message came.
	wake chan struct{}
}

// delivery is a message on its way to one endpoint.
type delivery struct {
	id   string
	body []byte
	// tried is how often it was sent, next when it is sent again.
	tried int
	next  time.Time
}

// New returns a Sender, nil without endpoints. It reads the secrets.
func New(o Options) (*Sender, error) {
	webhooks := webhooksOf(o.Config)
	if len(webhooks) == 0 {
		return nil, nil //nolint:nilnil // a nil Sender is ready
	}
	s := &Sender{log: o.Log, client: &http.Client{
		Transport: o.Transport,
		// A redirect would send the message somewhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if o.Transport == nil {
		s.client.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: attemptTime, IdleConnTimeout: 10 * time.Second, MaxConnsPerHost: len(webhooks), MaxResponseHeaderBytes: 64 << 10,
		}
	}
	for i, e := range webhooks {
		if err := e.read(); err != nil {
			return nil, fmt.Errorf("access.approvals.webhooks[%d].secret_file: %w", i, err)
		}
		s.endpoints = append(s.endpoints, e)
	}
	return s, nil
}

// webhooksOf are the endpoints of a configuration, without their secrets.
func webhooksOf(cfg *configv1.Config) []*endpoint {
	var out []*endpoint
	for i, one := range cfg.GetAccess().GetApprovals().GetWebhooks() {
		e := &endpoint{url: one.GetUrl(), file: one.GetSecretFile(), name: strconv.Itoa(i), wake: make(chan struct{}, 1)}
		if at, err := url.Parse(e.url); err == nil {
			e.name = at.Host // a path or query may be a secret
		}
		out = append(out, e)
	}
	return out
}

// Check reports endpoints on whose way messages could be read or changed, one that would hear everything twice, and secrets that
// cannot be used.
func Check(cfg *configv1.Config, report func(path, message string)) {
	first := map[string]int{}
	for i, e := range webhooksOf(cfg) {
		path := fmt.Sprintf("access.approvals.webhooks[%d]", i)
		at, err := url.Parse(e.url)
		other, isKnown := first[e.url]
		switch {
		case err != nil, at.Host == "", at.User != nil, at.Fragment != "", at.Scheme != "https" && at.Scheme != "http":
			report(path+".url", "must be a URL with a host, without user and fragment, such as https://hooks.example.com/approvals")
		case at.Scheme == "http" && !isLoopback(at.Hostname()):
			report(path+".url", "must be https; http is for loopback only")
		case isKnown:
			report(path+".url", fmt.Sprintf("is also the URL of access.approvals.webhooks[%d]", other))
		default:
			first[e.url] = i
		}
		if e.file == "" {
			continue // a rule of its message
		}
		if err := e.read(); err != nil {
			report(path+".secret_file", err.Error())
		}
	}
}

func isLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// errSecret says what a file of a secret is to have, and nothing of what it has.
var errSecret = fmt.Errorf("want one line, whsec_ and the base64 of %d to %d random bytes, as `echo whsec_$(openssl rand -base64 32)` prints", minKey, maxKey)

// read reads the secret of an endpoint.
func (e *endpoint) read() error {
	text, err := keys.ReadFile(e.file, maxFile)
	if err != nil {
		return err
	}
	key, err := parseSecret(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", e.file, err)
	}
	e.key.Store(&key)
	return nil
}

// parseSecret returns the key of a secret of Standard Webhooks: base64, with whsec_ in front or without. The error says nothing of
// the text.
func parseSecret(text string) ([]byte, error) {
	key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(strings.TrimSpace(text), "whsec_"))
	if err != nil || len(key) < minKey || len(key) > maxKey {
		return nil, errSecret
	}
	return key, nil
}

// Watch has the secrets read again when their files change.
func (s *Sender) Watch(w *reload.Watcher) {
	if s == nil {
		return
	}
	var files []string
	for _, e := range s.endpoints {
		files = append(files, e.file)
	}
	w.Add("webhook_secrets", reload.Keep(s.log, "webhook secret reload failed; keeping the last good ones", "webhook secrets reloaded", func() ([]zap.Field, error) {
		var errs []error
		for _, e := range s.endpoints {
			errs = append(errs, e.read())
		}
		return nil, errors.Join(errs...)
	}), files...)
}

// Send queues a message for every endpoint. It never waits. One with the id of an earlier one is the same message to receivers.
func (s *Sender) Send(id string, body []byte) {
	if s == nil {
		return
	}
	for _, e := range s.endpoints {
		if !e.put(&delivery{id: id, body: body, next: time.Now()}) {
			s.dropped.Add(1)
			s.log.Warn("webhook message dropped: too many wait for the endpoint", zap.String("host", e.name))
		}
	}
}

// put queues a message, and reports whether there was room.
func (e *endpoint) put(d *delivery) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queued) >= maxQueued {
		return false
	}
	e.queued = append(e.queued, d)
	select {
	case e.wake <- struct{}{}:
	default:
	}
	return true
}

// stats returns the counts.
func (s *Sender) stats() Stats {
	out := Stats{Delivered: s.delivered.Load(), GivenUp: s.givenUp.Load(), Dropped: s.dropped.Load(), Failed: s.failed.Load()}
	for _, e := range s.endpoints {
		e.mu.Lock()
		out.Queued += len(e.queued)
		e.mu.Unlock()
	}
	return out
}

// Counts returns what reads the counts, nil without endpoints.
func (s *Sender) Counts() func() Stats {
	if s == nil {
		return nil
	}
	return s.stats
}

// Run sends messages until ctx ends. What waits then is dropped.
func (s *Sender) Run(ctx context.Context) {
	if s == nil {
		return
	}
	var all sync.WaitGroup
	for _, e := range s.endpoints {
		all.Go(func() { s.serve(ctx, e) })
	}
	all.Wait()
	s.client.CloseIdleConnections()
	if left := s.stats().Queued; left > 0 {
		s.log.Warn("webhook messages not delivered: the sidecar ends", zap.Int("items", left))
	}
}

// serve sends the messages of one endpoint, one at a time.
func (s *Sender) serve(ctx context.Context, e *endpoint) {
	for {
		due, in := e.due()
		if due == nil {
			if !e.sleep(ctx, in) {
				return
			}
			continue
		}
		err := s.attempt(ctx, e, due)
		due.tried++
		switch {
		case err == nil:
			s.delivered.Add(1)
			e.remove(due)
		case ctx.Err() != nil:
			return
		case due.tried >= attempts:
			s.failed.Add(1)
			s.givenUp.Add(1)
			e.remove(due)
			s.log.Error("webhook message given up", zap.String("host", e.name), zap.Int("failures", due.tried), logkey.Error(err))
		default:
			s.failed.Add(1)
			pause := waitAfter(due.tried, rand.Float64()) //nolint:gosec // to spread attempts, nothing secret
			due.next = time.Now().Add(pause)
			s.log.Warn("webhook attempt failed", zap.String("host", e.name), zap.Int("failures", due.tried), zap.Duration("retry_in_ms", pause), logkey.Error(err))
		}
	}
}

// waitAfter is the pause after a number of attempts, less up to a quarter by chance.
func waitAfter(tried int, chance float64) time.Duration {
	wait := firstWait
	for range tried - 1 {
		wait = min(4*wait, longestWait)
	}
	return wait - time.Duration(float64(wait)*chance/4)
}

// due returns the message that is to be sent now, else how long none is; negative while there is none at all.
func (e *endpoint) due() (*delivery, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queued) == 0 {
		return nil, -1
	}
	first := slices.MinFunc(e.queued, func(a, b *delivery) int { return a.next.Compare(b.next) })
	if in := time.Until(first.next); in > 0 {
		return nil, in
	}
	return first, 0
}

// sleep waits for a time, or for a message; it returns false when ctx ends.
func (e *endpoint) sleep(ctx context.Context, in time.Duration) bool {
	var over <-chan time.Time
	if in >= 0 {
		timer := time.NewTimer(in)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-e.wake:
	case <-ctx.Done():
		return false
	}
	return true
}

func (e *endpoint) remove(d *delivery) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queued = slices.DeleteFunc(e.queued, func(one *delivery) bool { return one == d })
}

// attempt sends a message once. Its error says nothing of the path of the endpoint.
func (s *Sender) attempt(ctx context.Context, e *endpoint, d *delivery) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(d.body))
	if err != nil {
		return errors.New("the URL cannot be used")
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "outrigger")
	req.Header.Set("Webhook-Id", d.id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", sign(*e.key.Load(), d.id, at, d.body))
	res, err := s.client.Do(req)
	var failed *url.Error
	switch {
	case errors.As(err, &failed):
		return failed.Err
	case err != nil:
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	if res.StatusCode < http.StatusOK || res.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the endpoint answered %d", res.StatusCode) //nolint:err113 // for the log
	}
	return nil
}

// sign returns the signature of a message, as the header webhook-signature has it. at is the time in seconds since 1970.
func sign(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
