// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// home is the stream of JetStream behind a Bucket or a Stream.
type home struct {
	client *Client
	kind   string
	config jetstream.StreamConfig
	counts counts
	// keepsAll: no value may end before its own lifetime.
	keepsAll bool

	mu sync.Mutex
	// at is the stream on the present link; nil while it was not found there.
	at *found
	// noted is what was last said about differences from the configuration.
	noted string
	// known: it was found before. goneSince is when it was missed first since then; zero while it is there.
	known     bool
	goneSince time.Time
}

// remakeAfter is how long a stream that was there has to be missing before it is made anew. NATS 2.15 has forgotten a stream
// before its files are gone. What is made at that moment finds the old files and loses them: it answers, but takes no more
// writes. Removing the files is a rename: 3 ms for a stream of 1 GiB in our measurement, so this has room for a busy disk.
const remakeAfter = 2 * time.Second

// errDeleted means that a stream is missing, and not yet for long enough to make it anew.
var errDeleted = fmt.Errorf("it no longer exists; it is created again after it has been missing for %v", remakeAfter)

// found is a stream that was looked at.
type found struct {
	link    *link
	stream  jetstream.Stream
	created time.Time
}

// prefix begins the name of everything of the deployment.
func (c *Client) prefix() string { return "outrigger_" + c.name + "_" }

func (h *home) stats() Stats { return h.counts.snapshot(h.kind) }

// here returns the stream, or nil, and what is closed when that may change.
func (h *home) here() (*found, <-chan struct{}) {
	l, changed := h.client.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil || h.at.link != l {
		return nil, changed
	}
	return h.at, changed
}

// do runs an operation on the stream.
func (h *home) do(ctx context.Context, op Op, f func(context.Context, *link, jetstream.Stream) error) error {
	return h.client.do(ctx, &h.counts, op, func(ctx context.Context, l *link) error {
		at, _ := h.here()
		if at == nil || at.link != l {
			return fmt.Errorf("%w: %s: %w", ErrUnavailable, h.config.Name, errNotHere)
		}
		err := f(ctx, l, at.stream)
		if isGone(err) {
			h.set(nil)
		}
		return err
	})
}

// set notes where the stream is.
func (h *home) set(at *found) {
	h.mu.Lock()
	was := h.at
	h.at = at
	h.mu.Unlock()
	if at != nil && (was == nil || was.link != at.link || !was.created.Equal(at.created)) {
		h.client.moved()
	}
}

// ensure finds the stream, or makes it.
func (h *home) ensure(ctx context.Context, l *link) error {
	s, err := h.find(ctx, l)
	if err != nil {
		h.set(nil)
		return fmt.Errorf("%s: %w", h.config.Name, err)
	}
	info := s.CachedInfo()
	if wrong := h.wrong(&info.Config); len(wrong) > 0 {
		h.set(nil)
		return fmt.Errorf("%s: %s: delete it, or make it anew with `%s`", h.config.Name, strings.Join(wrong, "; "), h.command())
	}
	h.noteDifferences(&info.Config)
	h.counts.size.Store(int64(info.State.Bytes))
	h.counts.most.Store(max(info.Config.MaxBytes, 0))
	h.mu.Lock()
	h.known, h.goneSince = true, time.Time{}
	same := h.at != nil && h.at.link == l && h.at.created.Equal(info.Created)
	h.mu.Unlock()
	if !same {
		h.set(&found{link: l, stream: s, created: info.Created})
	}
	return nil
}

// find returns the stream as it is now, and makes it where there is none.
func (h *home) find(ctx context.Context, l *link) (jetstream.Stream, error) {
	within, cancel := context.WithTimeout(ctx, h.client.timeout)
	defer cancel()
	s, err := l.js.Stream(within, h.config.Name)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return nil, errNoJetStream
	case l.isDenied("$JS.API.STREAM.INFO." + h.config.Name):
		return nil, deniedError("$JS.API.STREAM.INFO." + h.config.Name)
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, err //nolint:wrapcheck // the caller adds the name
	}
	if !h.mayMake(time.Now()) {
		return nil, errDeleted
	}
	making, stop := context.WithTimeout(ctx, h.client.timeout)
	defer stop()
	s, err = l.js.CreateStream(making, h.config)
	switch {
	case err == nil:
		h.client.opts.Log.Info("shared state: stream created", zap.String("stream", h.config.Name), zap.Int("replicas", h.config.Replicas))
		return s, nil
	case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // another replica was faster
		return l.js.Stream(making, h.config.Name) //nolint:wrapcheck // the caller adds the name
	case l.isDenied("$JS.API.STREAM.CREATE." + h.config.Name):
		return nil, fmt.Errorf("it does not exist, and the account may not create it; an operator can with `%s`", h.command())
	}
	return nil, fmt.Errorf("create it: %w; if the account has no room for max_bytes, set a smaller budget (state.max_task_bytes), or create it with `%s`", err, h.command())
}

// mayMake reports whether a stream that is missing may be made: at once if it is new here.
func (h *home) mayMake(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.goneSince.IsZero() {
		h.goneSince = now
	}
	return !h.known || now.Sub(h.goneSince) >= remakeAfter
}

// wrong says what of a stream that was found breaks what is promised.
func (h *home) wrong(is *jetstream.StreamConfig) []string {
	var out []string
	add := func(bad bool, what string) {
		if bad {
			out = append(out, what)
		}
	}
	add(is.AllowDirect, "it allows direct gets, which may be stale (allow_direct)")
	add(is.Discard != h.config.Discard, fmt.Sprintf("it discards %s messages when it is full, not %s (discard)", ages(is.Discard), ages(h.config.Discard)))
	add(is.Retention != jetstream.LimitsPolicy, "it has another retention than limits")
	add(len(is.Subjects) != 1 || is.Subjects[0] != h.config.Subjects[0], "its subject is not "+h.config.Subjects[0])
	if h.config.MaxMsgsPerSubject == 1 {
		add(is.MaxMsgsPerSubject != 1, "it keeps more than the last value of a key (max_msgs_per_subject)")
		add(!is.AllowMsgTTL, "its values cannot expire one by one (allow_msg_ttl; it needs NATS 2.11 or newer)")
		add(is.SubjectDeleteMarkerTTL <= 0, "it does not say when a value expires (subject_delete_marker_ttl)")
		add(!is.AllowRollup, "its values cannot be deleted (allow_rollup_hdrs)")
		add(is.MaxAge > 0 && h.keepsAll && (h.config.MaxAge == 0 || is.MaxAge < h.config.MaxAge),
			fmt.Sprintf("it deletes values after %v, which may be before their lifetime is over (max_age)", is.MaxAge))
	}
	return out
}

// differences says what of a stream differs from the configuration, which is the
// operator's to decide: replicas with different configurations would undo each other's
// changes.
func (h *home) differences(is *jetstream.StreamConfig) []string {
	var out []string
	differ := func(what string, is, want any) {
		if is != want {
			out = append(out, fmt.Sprintf("%s is %v, configured is %v", what, is, want))
		}
	}
	differ("replicas", is.Replicas, h.config.Replicas)
	differ("storage", is.Storage, h.config.Storage)
	differ("max_bytes", is.MaxBytes, h.config.MaxBytes)
	differ("max_age", is.MaxAge, h.config.MaxAge)
	return out
}

// noteDifferences says once what of a stream differs from the configuration.
func (h *home) noteDifferences(is *jetstream.StreamConfig) {
	text := strings.Join(h.differences(is), "; ")
	h.mu.Lock()
	defer h.mu.Unlock()
	if text == h.noted {
		return
	}
	h.noted = text
	if text != "" {
		h.client.opts.Log.Warn("shared state: a stream differs from the configuration; change it with `nats stream edit`, or the configuration",
			zap.String("stream", h.config.Name), zap.String("differences", text))
	}
}

// ages are the messages that a policy discards.
func ages(p jetstream.DiscardPolicy) string {
	if p == jetstream.DiscardNew {
		return "new"
	}
	return "old"
}

// command is the line with which an operator makes the stream.
func (h *home) command() string {
	c := &h.config
	out := fmt.Sprintf("nats stream add %s --subjects='%s' --storage=%s --replicas=%d --retention=limits --discard=%s --max-bytes=%d --max-age=%s",
		c.Name, c.Subjects[0], strings.ToLower(c.Storage.String()), c.Replicas, ages(c.Discard), c.MaxBytes, c.MaxAge)
	if c.MaxMsgsPerSubject == 1 {
		out += fmt.Sprintf(" --max-msgs-per-subject=1 --allow-rollup --allow-msg-ttl --subject-del-markers-ttl=%s", c.SubjectDeleteMarkerTTL)
	}
	return out + " --deny-delete --no-allow-direct --defaults"
}
