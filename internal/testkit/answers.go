// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// KeptAnswers are the KeptAnswers of package bridge.
type KeptAnswers interface {
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	Create(ctx context.Context, key string, value []byte, lifetime time.Duration) (revision uint64, err error)
	Update(ctx context.Context, key string, value []byte, revision uint64, lifetime time.Duration) (uint64, error)
	Delete(ctx context.Context, key string, revision uint64) error
}

// AnswersContract is what every implementation of [KeptAnswers] keeps to. open returns an empty one. Where time is real, it takes
// some seconds.
func AnswersContract(t *testing.T, open func(t *testing.T) KeptAnswers) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, s KeptAnswers){
		"one is made of a key":              oneIsMadeOfAKey,
		"a change is of one revision":       aChangeIsOfOneRevision,
		"what is deleted may be made again": whatIsDeletedMayBeMadeAgain,
		"what is over is gone":              whatIsOverIsGone,
		"of many at once one makes it":      ofManyAtOnceOneMakesIt,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// getAnswer fails unless a key has a value; none is empty.
func getAnswer(t *testing.T, s KeptAnswers, key, want string) (revision uint64) {
	t.Helper()
	value, revision, err := s.Get(t.Context(), key)
	if err != nil || string(value) != want || (revision == 0) != (want == "") {
		t.Errorf("%s: %q, %d, %v; want %q", key, value, revision, err, want)
	}
	return revision
}

func createAnswer(t *testing.T, s KeptAnswers, key, value string, lifetime time.Duration) (revision uint64) {
	t.Helper()
	revision, err := s.Create(t.Context(), key, []byte(value), lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func oneIsMadeOfAKey(t *testing.T, s KeptAnswers) {
	t.Helper()
	getAnswer(t, s, "who.a", "")
	first := createAnswer(t, s, "who.a", "one", time.Hour)
	if first == 0 || createAnswer(t, s, "who.a", "two", time.Hour) != 0 || createAnswer(t, s, "who.b", "three", time.Hour) == 0 {
		t.Errorf("a key is made twice, or not at all: revision %d", first)
	}
	if getAnswer(t, s, "who.a", "one") != first {
		t.Errorf("it has not revision %d", first)
	}
}

func aChangeIsOfOneRevision(t *testing.T, s KeptAnswers) {
	t.Helper()
	first := createAnswer(t, s, "who.a", "one", time.Hour)
	second, err := s.Update(t.Context(), "who.a", []byte("two"), first, time.Hour)
	if err != nil || second <= first {
		t.Errorf("%d, then %d, %v", first, second, err)
	}
	if stale, err := s.Update(t.Context(), "who.a", []byte("three"), first, time.Hour); stale != 0 || err != nil {
		t.Errorf("an old revision: %d, %v", stale, err)
	}
	if err := s.Delete(t.Context(), "who.a", first); err != nil {
		t.Error(err)
	}
	getAnswer(t, s, "who.a", "two")
	if none, err := s.Update(t.Context(), "who.none", []byte("two"), first, time.Hour); none != 0 || err != nil {
		t.Errorf("a key that is not there: %d, %v", none, err)
	}
}

func whatIsDeletedMayBeMadeAgain(t *testing.T, s KeptAnswers) {
	t.Helper()
	first := createAnswer(t, s, "who.a", "one", time.Hour)
	for range 2 {
		if err := s.Delete(t.Context(), "who.a", first); err != nil {
			t.Error(err)
		}
	}
	getAnswer(t, s, "who.a", "")
	if createAnswer(t, s, "who.a", "two", time.Hour) == 0 {
		t.Errorf("its key is taken after revision %d", first)
	}
	getAnswer(t, s, "who.a", "two")
}

func whatIsOverIsGone(t *testing.T, s KeptAnswers) {
	t.Helper()
	createAnswer(t, s, "who.a", "one", time.Second)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if _, revision, _ := s.Get(t.Context(), "who.a"); revision == 0 {
			break
		}
	}
	getAnswer(t, s, "who.a", "")
}

func ofManyAtOnceOneMakesIt(t *testing.T, s KeptAnswers) {
	t.Helper()
	var made atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if revision, err := s.Create(t.Context(), "who.a", fmt.Append(nil, i), time.Hour); err == nil && revision > 0 {
				made.Add(1)
			}
		})
	}
	if all.Wait(); made.Load() != 1 {
		t.Errorf("%d made it", made.Load())
	}
}
