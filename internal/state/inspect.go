// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Inspector shows operators what a deployment keeps in NATS. It makes no bucket and no stream, and writes nothing but
// [Inspector.Remove]. Make one with [Inspect], and declare what a replica declares, with the same options.
type Inspector struct {
	client   *Client
	kinds    []inspected
	channels []*Channel
}

// inspected is a bucket or a stream that was declared.
type inspected struct {
	*home
	prefix string // of subjects
	// isLog: it keeps messages in their order, and not values by key.
	isLog bool
}

// Inspect connects to one of the servers, or fails. [Inspector.Close] closes the connection.
func Inspect(o Options) (*Inspector, error) {
	c, err := newClient(o), error(nil)
	if c.link, err = c.dialOnce(c.url); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return &Inspector{client: c}, nil
}

// Close closes the connection.
func (i *Inspector) Close() { i.client.Close() }

// Bucket declares a bucket, as [Client.Bucket] does for a replica.
func (i *Inspector) Bucket(o BucketOptions) {
	b := i.client.Bucket(o)
	i.kinds = append(i.kinds, inspected{home: &b.home, prefix: b.prefix})
}

// Once declares what is remembered, as [Client.Once] does for a replica.
func (i *Inspector) Once(o OnceOptions) { i.Bucket(o.bucket()) }

// Stream declares a stream, as [Client.Stream] does for a replica.
func (i *Inspector) Stream(o StreamOptions) {
	s := i.client.Stream(o)
	i.kinds = append(i.kinds, inspected{home: &s.home, prefix: s.prefix, isLog: true})
}

// Channel declares a channel, as [Client.Channel] does for a replica.
func (i *Inspector) Channel(kind string) {
	i.channels = append(i.channels, i.client.Channel(kind))
}

// StreamInfo is a stream of JetStream as it is now.
type StreamInfo struct {
	// Kind is what it holds, such as "tasks", Name its name at NATS.
	Kind, Name string
	// Entries includes marks of deleted keys, which stay for a minute. Bytes and MaxBytes are counted by NATS.
	Entries         uint64
	Bytes, MaxBytes int64
	Replicas        int
	// Storage is "file" or "memory".
	Storage string
	// Leader is the server that answers; empty while there is none. A server without a cluster has no name for it either.
	Leader string
	// InCluster: the servers are a cluster, so that there must be a leader.
	InCluster bool
	Followers []Follower
	// Oldest and Newest are the times of the first and the last entry; zero without one.
	Created, Oldest, Newest time.Time
	// Wrong are settings that break what is promised to callers, Differs those that differ from the configuration.
	Wrong, Differs []string
	// Offset is how far the clock of the server is ahead of the one here, Within how exactly that is known. Zero Within: it is
	// not known.
	Offset, Within time.Duration
}

// Follower is a server that keeps a copy.
type Follower struct {
	Name string
	// Current: it has what the leader has. Lag is how many writes it is behind.
	Current, Offline bool
	Lag              uint64
	// Seen is how long ago the leader heard of it.
	Seen time.Duration
}

// Kinds returns the declared kinds, in their order.
func (i *Inspector) Kinds() []string {
	var out []string
	for _, k := range i.kinds {
		out = append(out, k.kind)
	}
	return out
}

// Info returns the stream of a kind. The errors are [ErrNotFound] where it does not exist, those of a lack of permission or of
// JetStream, and [ErrUnavailable].
func (i *Inspector) Info(ctx context.Context, kind string) (StreamInfo, error) {
	k, err := i.find(kind)
	if err != nil {
		return StreamInfo{}, err
	}
	info, _, err := i.info(ctx, k)
	return info, err
}

// find returns a declared kind.
func (i *Inspector) find(kind string) (inspected, error) {
	for _, k := range i.kinds {
		if k.kind == kind {
			return k, nil
		}
	}
	return inspected{}, fmt.Errorf("state: %q was not declared", kind)
}

// info asks for a stream.
func (i *Inspector) info(ctx context.Context, k inspected) (StreamInfo, jetstream.Stream, error) {
	l := i.client.link
	ctx, cancel := context.WithTimeout(ctx, i.client.timeout)
	defer cancel()
	l.forgive()
	asked := time.Now()
	s, err := l.js.Stream(ctx, k.config.Name)
	took := time.Since(asked)
	switch {
	case err == nil:
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return StreamInfo{}, nil, fmt.Errorf("%w: %w", ErrUnavailable, errNoJetStream)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return StreamInfo{}, nil, fmt.Errorf("stream %s: %w", k.config.Name, ErrNotFound)
	case l.isDenied("$JS.API.STREAM.INFO." + k.config.Name):
		return StreamInfo{}, nil, fmt.Errorf("%w: %w", ErrUnavailable, deniedError("$JS.API.STREAM.INFO."+k.config.Name))
	default:
		return StreamInfo{}, nil, fmt.Errorf("stream %s: %w", k.config.Name, classify(ctx, err))
	}
	is := s.CachedInfo()
	out := StreamInfo{
		Kind: k.kind, Name: k.config.Name, Entries: is.State.Msgs, Bytes: int64(is.State.Bytes), MaxBytes: is.Config.MaxBytes,
		Replicas: is.Config.Replicas, Storage: strings.ToLower(is.Config.Storage.String()), Created: is.Created,
		Wrong: k.wrong(&is.Config), Differs: k.differences(&is.Config),
	}
	if is.State.Msgs > 0 {
		out.Oldest, out.Newest = is.State.FirstTime, is.State.LastTime
	}
	if !is.TimeStamp.IsZero() {
		out.Within = took / 2
		out.Offset = is.TimeStamp.Sub(asked.Add(out.Within))
	}
	if c := is.Cluster; c != nil && c.Name != "" {
		out.Leader, out.InCluster = c.Leader, true
		for _, p := range c.Replicas {
			out.Followers = append(out.Followers, Follower{Name: p.Name, Current: p.Current, Offline: p.Offline, Lag: p.Lag, Seen: p.Active})
		}
	}
	return out, s, nil
}

// errNoJetStream is what to do about servers without JetStream.
var errNoJetStream = errors.New("JetStream is not enabled: start the servers with it (`jetstream {}`), and give the account a share of it")

// deniedError is what to do about a permission that is missing.
func deniedError(subject string) error {
	return errors.New("the account may not publish on " + subject + ": allow it")
}
