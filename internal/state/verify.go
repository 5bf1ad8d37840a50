// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Level says how bad a finding is.
type Level string

// The levels. A note is what cannot be seen from here.
const (
	levelOK   Level = "ok"
	levelNote Level = "note"
	LevelWarn Level = "warn"
	LevelFail Level = "fail"
)

// Finding is one thing that [Inspector.Verify] has to say.
type Finding struct {
	Level Level
	Text  string
	// Fix is what to do next; empty where there is nothing to do.
	Fix string
}

// VerifyOptions are what [Inspector.Verify] compares with. Zero MaxValues opens no value.
type VerifyOptions struct {
	// MaxResultBytes is that of the results of tools.
	MaxResultBytes int64
	// MaxValues bounds the values of each kind that are opened.
	MaxValues int
}

const (
	// oldestServer is the first release that deletes values one by one, major and minor.
	oldestMajor, oldestMinor = 2, 11
	// skewAllowed is the difference of clocks that records with times bear.
	skewAllowed = 2 * time.Second
	// roomWarn and roomFail are percents of a budget.
	roomWarn, roomFail = 80, 95
	// maxServers bounds the servers that are asked one by one.
	maxServers = 16
	// never is a sequence that no message has, so that a write which expects it stores nothing.
	never = uint64(1) << 62
	// probeKey is the key of such a write.
	probeKey = "verify"
)

// Verify looks at everything that can be seen from here, and tells each finding. It changes nothing; it sends a message that no replica gets. It reports whether there is
// no finding of LevelFail.
func (i *Inspector) Verify(ctx context.Context, o VerifyOptions, tell func(Finding)) bool {
	v := &verification{Inspector: i, opts: o, tell: tell, ok: true}
	v.servers(ctx)
	v.account(ctx)
	var present []StreamInfo
	for _, k := range i.kinds {
		if info, found := v.stream(ctx, k); found {
			present = append(present, info)
			v.permissions(ctx, k)
			v.values(ctx, k)
		}
	}
	for _, n := range v.channels {
		if err := n.ensure(ctx, v.client.link); err != nil {
			v.add(LevelFail, "allow the account to publish on "+n.prefix+"> and to subscribe to it", "%s: messages between replicas do not arrive", n.kind)
		}
	}
	v.clocks(present)
	v.durability(present)
	return v.ok
}

// verification is one run of Verify.
type verification struct {
	*Inspector
	opts VerifyOptions
	tell func(Finding)
	ok   bool
}

func (v *verification) add(level Level, fix, format string, args ...any) {
	v.ok = v.ok && level != LevelFail
	v.tell(Finding{Level: level, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// servers asks each server on its own: those of the configuration, and those that they know of.
func (v *verification) servers(ctx context.Context) {
	configured := strings.Split(v.client.url, ",")
	known := v.client.link.nc.DiscoveredServers()
	seen := map[string]bool{}
	for n, address := range slices.Concat(configured, known) {
		if n >= maxServers || ctx.Err() != nil {
			v.add(levelNote, "", "more than %d servers: the others were not asked", maxServers)
			return
		}
		l, err := v.client.dialOnce(strings.TrimSpace(address))
		shown := withoutUser(address)
		if err != nil {
			if n < len(configured) {
				v.add(LevelFail, "start the server, or correct --state, the credentials or state.tls", "%s: cannot connect: %v", shown, err)
			} else {
				v.add(levelNote, "", "%s, which the other servers name, cannot be reached from here: %v", shown, err)
			}
			continue
		}
		if id := l.nc.ConnectedServerId(); !seen[id] {
			seen[id] = true
			v.server(l.nc, shown)
		}
		l.nc.Close()
	}
}

// withoutUser is a URL without the credentials that it may have.
func withoutUser(address string) string {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(address), "://")
	if !ok {
		return address
	}
	return scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
}

// server judges one server.
func (v *verification) server(nc *nats.Conn, address string) {
	version := nc.ConnectedServerVersion()
	name := fmt.Sprintf("%s (%s)", address, nc.ConnectedServerName())
	if !isRecent(version) {
		v.add(LevelFail, fmt.Sprintf("update it to NATS %d.%d or newer", oldestMajor, oldestMinor),
			"%s is NATS %s: values cannot expire one by one", name, version)
		return
	}
	if has, _ := nc.ConnectedServerJetStream(); !has {
		v.add(LevelWarn, "start it with `jetstream {}`, unless other servers of its cluster keep the state", "%s is NATS %s, without JetStream", name, version)
		return
	}
	if most := nc.MaxPayload(); most < v.opts.MaxResultBytes {
		v.add(LevelWarn, fmt.Sprintf("set max_payload of the servers to %d or more, or limits.max_result_bytes lower", v.opts.MaxResultBytes),
			"%s: max_payload is %d bytes, and limits.max_result_bytes is %d: a task with a larger result ends with RESOURCE_EXHAUSTED", name, most, v.opts.MaxResultBytes)
		return
	}
	v.add(levelOK, "", "%s is NATS %s with JetStream; max_payload is %d bytes", name, version, nc.MaxPayload())
}

// isRecent reports whether a version of NATS can do what is needed.
func isRecent(version string) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	return errMajor == nil && errMinor == nil && (major > oldestMajor || major == oldestMajor && minor >= oldestMinor)
}

// account looks at the room of the account, which it may not be allowed to.
func (v *verification) account(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, v.client.timeout)
	defer cancel()
	l := v.client.link
	l.forgive()
	account, err := l.js.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		v.add(LevelFail, "start the servers with `jetstream {}`, and give the account a share of it", "JetStream is not enabled for the account")
	case l.isDenied("$JS.API.INFO"):
		v.add(levelNote, "allow the account to publish on $JS.API.INFO to see it; the sidecar needs no such permission", "the limits of the account are not visible")
	case err != nil:
		v.add(LevelFail, "check the servers: nats server report jetstream", "the account cannot be looked at: %v", err)
	default:
		v.budget("storage of the account", account.Store, account.Limits.MaxStore)
		v.budget("memory of the account", account.Memory, account.Limits.MaxMemory)
	}
}

// budget judges what is used of a budget of the account; -1 and 0 are none.
func (v *verification) budget(what string, used uint64, most int64) {
	if most > 0 && int64(used) >= most/100*roomWarn {
		v.add(LevelWarn, "give the account more of it", "%s: %d of %d bytes are used", what, used, most)
	}
}

// stream judges one stream.
func (v *verification) stream(ctx context.Context, k inspected) (StreamInfo, bool) {
	info, _, err := v.info(ctx, k)
	switch {
	case errors.Is(err, ErrNotFound):
		v.add(LevelFail, "start a replica, which makes it, or run `"+k.command()+"`; is --state-name right?", "%s: there is no stream %s", k.kind, k.config.Name)
		return info, false
	case err != nil:
		v.add(LevelFail, "check the servers: nats stream info "+k.config.Name, "%s: %v", k.kind, err)
		return info, false
	}
	healthy := v.copies(&info)
	for _, text := range info.Wrong {
		v.add(LevelFail, "change it with `nats stream edit "+info.Name+"`, or delete it and run `"+k.command()+"`", "%s: %s", k.kind, text)
	}
	for _, text := range info.Differs {
		v.add(LevelWarn, "change it with `nats stream edit "+info.Name+"`, or the configuration", "%s: %s", k.kind, text)
	}
	room := v.room(&info, k.config.Discard == jetstream.DiscardOld)
	if healthy && room && len(info.Wrong) == 0 && len(info.Differs) == 0 {
		v.add(levelOK, "", "%s: %s is as it should be; %d of %d bytes", k.kind, info.Name, info.Bytes, info.MaxBytes)
	}
	return info, true
}

// copies judges the servers that keep a stream.
func (v *verification) copies(info *StreamInfo) bool {
	healthy := true
	bad := func(level Level, fix, format string, args ...any) {
		healthy = false
		v.add(level, fix, "%s: "+format, append([]any{info.Kind}, args...)...)
	}
	const look = "look at the servers: nats stream info "
	if info.InCluster && info.Leader == "" {
		bad(LevelFail, "start the servers that are missing; a stream needs most of its copies", "%s has no leader", info.Name)
	}
	for _, f := range info.Followers {
		switch {
		case f.Offline:
			bad(LevelWarn, look+info.Name, "the copy at %s is offline", f.Name)
		case !f.Current:
			bad(LevelWarn, look+info.Name, "the copy at %s is %d writes behind, last heard of %v ago", f.Name, f.Lag, f.Seen.Round(time.Millisecond))
		}
	}
	if have := len(info.Followers) + 1; info.InCluster && have < info.Replicas {
		bad(LevelWarn, look+info.Name, "%d of %d copies exist", have, info.Replicas)
	}
	return healthy
}

// room judges how full a stream is. One that drops the oldest is full sooner or later.
func (v *verification) room(info *StreamInfo, dropsOldest bool) bool {
	if info.MaxBytes <= 0 || dropsOldest {
		return true
	}
	percent := info.Bytes * 100 / info.MaxBytes
	level := LevelWarn
	switch {
	case percent < roomWarn:
		return true
	case percent >= roomFail:
		level = LevelFail
	}
	v.add(level, fmt.Sprintf("raise the setting of %s, and max_bytes of %s with `nats stream edit`", info.Kind, info.Name),
		"%s: %d of %d bytes are used (%d %%)", info.Kind, info.Bytes, info.MaxBytes, percent)
	return false
}

// permissions tries what a replica does: a write that is refused because it expects a sequence that no message has.
func (v *verification) permissions(ctx context.Context, k inspected) {
	ctx, cancel := context.WithTimeout(ctx, v.client.timeout)
	defer cancel()
	l := v.client.link
	l.forgive()
	_, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: k.prefix + probeKey, Header: nats.Header{}},
		jetstream.WithExpectStream(k.config.Name), jetstream.WithExpectLastSequencePerSubject(never))
	switch subject := l.refusal(); {
	case subject != "":
		v.add(LevelFail, "allow the account to publish on "+k.prefix+">", "%s: the account may not write", k.kind)
	case errors.Is(classify(ctx, err), ErrConflict):
	default:
		v.add(LevelFail, "check the servers: nats stream info "+k.config.Name, "%s: a write was not answered as it should be: %v", k.kind, err)
	}
}

// values opens the values of a kind.
func (v *verification) values(ctx context.Context, k inspected) {
	read, unreadable, first := 0, 0, ""
	left, err := uint64(0), error(nil)
	if v.opts.MaxValues > 0 {
		left, err = v.Scan(ctx, k.kind, func(e Item) bool {
			read++
			if e.Err != nil {
				if unreadable++; unreadable == 1 {
					first = e.Key + ": " + e.Err.Error()
				}
			}
			return read < v.opts.MaxValues
		})
	}
	switch {
	case err != nil:
		v.add(LevelFail, "the account needs the permissions that docs/operations.md names", "%s: cannot be read: %v", k.kind, err)
	case unreadable > 0:
		v.add(LevelFail, "use the --state-key of the replicas; `sidecar state ls "+k.kind+"` shows which", "%s: %d of %d values cannot be opened (%s)", k.kind, unreadable, read, first)
	case read > 0:
		v.add(levelOK, "", "%s: --state-key opens %d of %d values", k.kind, read, read)
	}
	if left > 0 {
		v.add(levelNote, "read more with --values", "%s: %d values were not read", k.kind, left)
	}
}

// clocks judges the difference between the clock here and those of the servers.
func (v *verification) clocks(streams []StreamInfo) {
	if len(streams) == 0 {
		return
	}
	worst := slices.MaxFunc(streams, func(a, b StreamInfo) int { return int(a.Offset.Abs() - b.Offset.Abs()) })
	switch {
	case worst.Within == 0:
		v.add(levelNote, "", "the clock of the servers is not visible")
	case worst.Offset.Abs()-worst.Within > skewAllowed:
		v.add(LevelWarn, "synchronize the clocks (NTP)", "the clock of a server differs from the one here by %v: records carry times", worst.Offset.Round(time.Millisecond))
	default:
		v.add(levelOK, "", "the clocks of the servers and the one here differ by less than %v", skewAllowed)
	}
}

// durability says what an acknowledged write survives.
func (v *verification) durability(streams []StreamInfo) {
	if len(streams) == 0 {
		return
	}
	inMemory, single := false, false
	for _, s := range streams {
		inMemory = inMemory || s.Storage == "memory"
		single = single || s.Replicas < 2
	}
	if inMemory {
		v.add(LevelWarn, "set state.storage to file where that matters, and make the streams anew", "storage is memory: everything is lost when all servers restart")
	} else {
		v.add(levelNote, "check that the jetstream block of the servers has `sync_interval: always`: without it, a loss of power or a full disk loses what was acknowledged",
			"how often the servers write to the disk is not visible; the default of NATS is every two minutes")
	}
	if single {
		v.add(LevelWarn, "set state.replicas to 3 on a cluster of three, and `nats stream edit` the streams", "there is one copy: it is lost with the disk of its server")
	}
}
