// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"time"
)

// Status is the state of the catalog.
type Status struct {
	// Ready is true if there is a catalog.
	Ready bool
	// Why explains why there is no catalog, or why the last refresh failed. It is empty if there is no problem.
	Why string
	// Err is the error of the last load; nil if it succeeded.
	Err error
	// Loads counts all loads so far. Failures counts those since the last success.
	Loads, Failures int
	// Loaded is the time of the last successful load. Built is the time when the catalog in use was built: an unchanged
	// load does not rebuild it. NextTry is the time of Run's next load. Each is zero if unknown.
	Loaded, Built, NextTry time.Time
	// Sources hold the result of each source in the last load, in configuration order.
	Sources []SourceStatus
}

// SourceStatus is the result of one source.
type SourceStatus struct {
	Name string
	// Err is nil if the load succeeded.
	Err error
	// At is the start of the load. Took is its duration.
	At   time.Time
	Took time.Duration
	// Files, Services and Tools count what the load returned. Tools are those that a native backend declares.
	Files, Services, Tools int
}

// NotReadyError is the reason why there is no catalog yet.
type NotReadyError struct {
	// Why explains the reason to people.
	Why string
	// Cause joins the error that ended the wait and the error of the last load.
	Cause error
}

// Error returns the reason as text.
func (e *NotReadyError) Error() string { return "no tools yet: " + e.Why }

// Unwrap returns the cause.
func (e *NotReadyError) Unwrap() error { return e.Cause }

// loadState is what Status is made of; Live.mu guards it.
type loadState struct {
	isLoading, isHopeless  bool
	loads, failures        int
	err                    error
	sources                []SourceStatus
	loaded, built, nextTry time.Time
}

// Status returns a snapshot of the catalog's state.
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
