// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"time"
)

// Status is how the catalog is doing.
type Status struct {
	// Ready tells that there is a catalog.
	Ready bool
	// Why says in words why there is none, or why the last refresh failed. Empty where all is well.
	Why string
	// Err is the last load's error, nil where it succeeded.
	Err error
	// Loads counts the loads so far, Failures those since the last success.
	Loads, Failures int
	// Loaded is when the last load succeeded, Built when the catalog in use came to be: a load that brings nothing new
	// leaves it. NextTry is when Run loads again. Each is zero where it is not known.
	Loaded, Built, NextTry time.Time
	// Sources tell how each source did in the last load, in the order in which they were named.
	Sources []SourceStatus
}

// SourceStatus is how one source did.
type SourceStatus struct {
	Name string
	// Err is nil where it succeeded.
	Err error
	// At is when the load began, Took how long it was.
	At   time.Time
	Took time.Duration
	// Files, Services and Tools are what it brought; Tools are those that a native backend declares.
	Files, Services, Tools int
}

// NotReadyError says why there is no catalog yet.
type NotReadyError struct {
	// Why is for people.
	Why string
	// Cause joins what ended the wait and what the last load failed with.
	Cause error
}

// Error is the reason in words.
func (e *NotReadyError) Error() string { return "no tools yet: " + e.Why }

// Unwrap is the cause.
func (e *NotReadyError) Unwrap() error { return e.Cause }

// loadState is what Status is made of; Live.mu guards it.
type loadState struct {
	isLoading, isHopeless  bool
	loads, failures        int
	err                    error
	sources                []SourceStatus
	loaded, built, nextTry time.Time
}

// Status is a snapshot of how the catalog is doing.
func (l *Live) Status() Status {
	isReady := l.Current() != nil
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state
	return Status{
		Ready: isReady, Why: s.why(isReady), Err: s.err, Loads: s.loads, Failures: s.failures,
		Loaded: s.loaded, Built: s.built, NextTry: s.nextTry, Sources: s.sources,
	}
}

// why puts the state in words.
func (s loadState) why(isReady bool) string {
	switch {
	case s.err == nil && isReady:
		return ""
	case s.err == nil && s.isLoading:
		return "the first load is in progress"
	case s.err == nil:
		return "loading has not started"
	}
	text := oneLine(s.err)
	if isReady {
		text = "last refresh failed; keeping the previous catalog: " + text
	}
	switch {
	case s.isHopeless:
		return text
	case s.isLoading:
		return text + "; retrying now"
	case s.nextTry.IsZero():
		return text
	}
	left := max(0, time.Until(s.nextTry))
	unit := 100 * time.Millisecond
	if left >= time.Second {
		unit = time.Second
	}
	return fmt.Sprintf("%s; next attempt in %v", text, left.Round(unit))
}

func (l *Live) began() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.isLoading = true
	l.state.loads++
	l.state.nextTry = time.Time{}
}

// failed notes a load that brought nothing. One that its caller gave up says nothing about the sources.
func (l *Live) failed(ctx context.Context, err error, sources []SourceStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.isLoading = false
	if ctx.Err() != nil {
		return
	}
	l.state.failures++
	l.state.err, l.state.sources = err, sources
}

// succeeded notes a load that replaced the catalog.
func (l *Live) succeeded(sources []SourceStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.isHopeless = false
	l.brought(sources)
	l.state.built = l.state.loaded
	l.settle()
}

// unchanged notes a load that brought what the catalog in use was built of.
func (l *Live) unchanged(sources []SourceStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.brought(sources)
}

// brought notes that a load succeeded. The caller holds the lock.
func (l *Live) brought(sources []SourceStatus) {
	l.state.isLoading = false
	l.state.failures = 0
	l.state.err, l.state.sources = nil, sources
	l.state.loaded = time.Now()
}

// giveUp notes that there will be no catalog.
func (l *Live) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.isHopeless = true
	l.settle()
}

// settle lets those who wait go on. The caller holds the lock.
func (l *Live) settle() {
	if !l.isDone {
		l.isDone = true
		close(l.settled)
	}
}
