// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"testing"
	"time"
)

func TestIsRecent(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"2.10.29": false, "2.11.0": true, "2.11.0-RC.1": true, "v2.12.3": true, "3.0.0": true, "1.99.0": false, "": false, "dev": false, "2.x": false,
	} {
		if got := isRecent(version); got != want {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
	}
}

func TestWithoutUser(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"nats://a:4222": "nats://a:4222", "tls://user:pass@a:4222": "tls://a:4222", "nats://p@ss@a": "nats://a", "a:4222": "a:4222",
	} {
		if got := withoutUser(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		ttl    string
		maxAge time.Duration
		want   time.Time
	}{
		{"1m0s", time.Hour, at.Add(time.Minute)}, {"1m0s", 0, at.Add(time.Minute)}, {"2h0m0s", time.Hour, at.Add(time.Hour)},
		{"", time.Hour, at.Add(time.Hour)}, {"never", 0, time.Time{}}, {"", 0, time.Time{}},
	} {
		if got := expiry(at, test.ttl, test.maxAge); !got.Equal(test.want) {
			t.Errorf("%q of at most %v: %v, want %v", test.ttl, test.maxAge, got, test.want)
		}
	}
}

// TestClocks: a difference counts only as far as it is certain.
func TestClocks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		offset, within time.Duration
		want           string
	}{
		{time.Millisecond, time.Millisecond, "ok: the clocks"},
		{-3 * time.Second, 10 * time.Millisecond, "warn: the clock of a server differs from the one here by -3s"},
		{5 * time.Second, 10 * time.Millisecond, "warn: the clock of a server differs from the one here by 5s"},
		{3 * time.Second, 2 * time.Second, "ok: the clocks"},
		{0, 0, "note: the clock of the servers is not visible"},
	} {
		var got string
		v := &verification{ok: true, tell: func(f Finding) { got += string(f.Level) + ": " + f.Text }}
		v.clocks([]StreamInfo{{Offset: 0, Within: test.within}, {Offset: test.offset, Within: test.within}})
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%v within %v: %q, want %q", test.offset, test.within, got, test.want)
		}
	}
}

// TestRoom: a stream that drops its oldest entries is full sooner or later, and well.
func TestRoom(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		bytes int64
		drops bool
		want  Level
	}{{0, false, levelOK}, {79, false, levelOK}, {80, false, LevelWarn}, {94, false, LevelWarn}, {95, false, LevelFail}, {100, true, levelOK}} {
		got := levelOK
		v := &verification{ok: true, tell: func(f Finding) { got = f.Level }}
		if v.room(&StreamInfo{Kind: "things", Bytes: test.bytes, MaxBytes: 100}, test.drops); got != test.want || v.ok != (got != LevelFail) {
			t.Errorf("%d of 100 bytes, drops the oldest: %v: %s, want %s", test.bytes, test.drops, got, test.want)
		}
	}
}

// TestCopies of a stream in a cluster.
func TestCopies(t *testing.T) {
	t.Parallel()
	well := Follower{Name: "b", Current: true}
	for _, test := range []struct {
		info StreamInfo
		want string
	}{
		{StreamInfo{Replicas: 3, InCluster: true, Leader: "a", Followers: []Follower{well, well}}, ""},
		{StreamInfo{Replicas: 1}, ""},
		{StreamInfo{Replicas: 3, InCluster: true, Followers: []Follower{well, well}}, "fail: things: S has no leader"},
		{StreamInfo{Replicas: 3, InCluster: true, Leader: "a", Followers: []Follower{well, {Name: "c", Offline: true}}}, "warn: things: the copy at c is offline"},
		{StreamInfo{Replicas: 3, InCluster: true, Leader: "a", Followers: []Follower{well, {Name: "c", Lag: 7, Seen: time.Second}}}, "warn: things: the copy at c is 7 writes behind, last heard of 1s ago"},
		{StreamInfo{Replicas: 3, InCluster: true, Leader: "a", Followers: []Follower{well}}, "warn: things: 2 of 3 copies exist"},
	} {
		got := ""
		v := &verification{ok: true, tell: func(f Finding) { got += string(f.Level) + ": " + f.Text }}
		test.info.Kind, test.info.Name = "things", "S"
		if healthy := v.copies(&test.info); got != test.want || healthy != (test.want == "") {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
