// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"slices"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// nearestRegistered is how many names an [UnregistrationError] proposes.
const nearestRegistered = 3

// UnregistrationError is the reason why a tool was not unregistered.
type UnregistrationError struct {
	// Name is the tool's name, sanitized for display.
	Name string
	// Reason is Unknown if no tool has the name, Invalid if the tool is the backend's own, and Conflict if another version
	// is registered.
	Reason Refusal
	// Text explains the reason to people.
	Text string
	// Nearest are names of registered tools similar to an unknown one.
	Nearest []string
}

// Error returns the reason as text.
func (e *UnregistrationError) Error() string {
	return fmt.Sprintf("tool %q is not unregistered: %s", e.Name, e.Text)
}

// Unregister removes a registered tool from the catalog in use and from every later one, and returns its version.
// In-flight calls finish normally. If version is not empty, only that version is removed. Unregister waits for the first
// catalog until the context ends.
//
// The error is an *UnregistrationError if there is nothing to remove, and a *NotReadyError if there is no catalog.
func (l *Live) Unregister(ctx context.Context, name, version string) (string, error) {
	return l.UnregisterStored(ctx, name, version, func() error { return nil })
}

// UnregisterStored is like Unregister, and calls store when nothing else can refuse it any more. If store fails, that is the
// error, and nothing has changed.
func (l *Live) UnregisterStored(ctx context.Context, name, version string, store func() error) (string, error) {
	if _, err := l.Wait(ctx); err != nil {
		return "", err
	}
	known := &l.registered
	known.mu.Lock()
	defer known.mu.Unlock()
	c, limits := l.Current(), l.plan.Load().build.Limits.withDefaults()
	at, isKnown := known.find(name)
	if !isKnown {
		return "", c.notRegistered(name)
	}
	gone := known.all[at]
	if version != "" && version != gone.Version {
		return "", &UnregistrationError{Name: shown.Clip(name), Reason: Conflict,
			Text: fmt.Sprintf("version %s is registered, not %s", gone.Version, shown.Clip(version))}
	}
	// The others are bound again, because one of them may have been left out for the sake of this one.
	all := slices.Delete(slices.Clone(known.all), at, at+1)
	fresh, err := c.ungrown().rebind(all, limits)
	if err != nil {
		return "", err
	}
	if err := store(); err != nil {
		return "", err
	}
	known.all, known.bytes = all, known.bytes-gone.bytes
	l.current.Store(fresh)
	l.tell(c, fresh)
	return gone.Version, nil
}

// notRegistered says why a name is not one that can be taken back.
func (c *Catalog) notRegistered(name string) error {
	if t, ok := c.Lookup(name); ok && !t.Registered {
		return &UnregistrationError{Name: shown.Clip(name), Reason: Invalid, Text: fmt.Sprintf(
			"it is not a registered tool: it comes from %s; to hide it, use an exclude pattern or the overlay", t.Subject())}
	}
	out := &UnregistrationError{Name: shown.Clip(name), Reason: Unknown, Text: "no tool of this name is registered"}
	if c.growth != nil {
		out.Nearest = nearestOf(c.growth.tools, name, nearestRegistered)
	}
	return out
}
