// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Kind is the kind of a change.
type Kind uint8

// The kinds of changes. The zero Kind is invalid.
const (
	// ToolsListChanged means that the list of tools changed.
	ToolsListChanged Kind = iota + 1
	// PromptsListChanged means that the list of prompts changed.
	PromptsListChanged
	// ResourcesListChanged means that the list of resources, or that of resource templates, changed.
	ResourcesListChanged
	// ResourceUpdated means that the contents of one resource changed.
	ResourceUpdated
	// TaskChanged means that one task changed.
	TaskChanged
)

// about returns the name of a kind, for logs and errors, and the method of its notification; none for an unknown kind.
func (k Kind) about() (name, method string) {
	all := [...][2]string{
		ToolsListChanged:     {"tools list changed", MethodToolsChanged},
		PromptsListChanged:   {"prompts list changed", MethodPromptsChanged},
		ResourcesListChanged: {"resources list changed", MethodResourcesChanged},
		ResourceUpdated:      {"resource updated", MethodResourceUpdated},
		TaskChanged:          {"task changed", MethodTaskChanged},
	}
	if k == 0 || int(k) >= len(all) {
		return fmt.Sprintf("kind %d", uint8(k)), ""
	}
	return all[k][0], all[k][1]
}

// String returns a name for logs and errors.
func (k Kind) String() string {
	name, _ := k.about()
	return name
}

// Methods of the notifications of a change feed, as defined by the contract (outrigger.v1.Notification; the same as in MCP
// 2026-07-28, subscriptions).
const (
	methodAcknowledged     = "notifications/subscriptions/acknowledged"
	MethodToolsChanged     = "notifications/tools/list_changed"
	MethodPromptsChanged   = "notifications/prompts/list_changed"
	MethodResourcesChanged = "notifications/resources/list_changed"
	MethodResourceUpdated  = "notifications/resources/updated"
	MethodTaskChanged      = "notifications/tasks"
)

// Limits of changes and filters, as ChangeFilter of the contract outrigger.v1 allows.
const (
	// MaxURIs and MaxTaskIDs are the maximum numbers of resource URIs and task ids in a filter.
	MaxURIs    = 1024
	MaxTaskIDs = 1024
	// maxURIBytes is the maximum length of a resource URI.
	maxURIBytes = 8192
	// maxTaskIDBytes is the maximum length of a task id: the 256 bytes of Task.task_id, with room for the sealed form that
	// callers get.
	maxTaskIDBytes = 1024
)

// Change reports that something is different now, and not the states in between: a slow reader gets one notification of
// something that changed often, with its newest state. Fields that do not belong to its kind are zero.
type Change struct {
	Kind Kind
	// URI is the URI of the resource, for ResourceUpdated, of at most [maxURIBytes]. It may be below the URI in a subscriber's
	// filter.
	URI string
	// Scope, for ResourceUpdated, restricts the change to those who subscribe with this scope, by [Filter.Scoped]. Readers do
	// not get it.
	Scope string
	// Task is the current task, for TaskChanged. Its id has at most [maxTaskIDBytes]. Subscribers share it, so it must not
	// change once it is published.
	Task *outriggerv1.Task
	// Principal is the owner of the task, for TaskChanged. It is empty if callers are not distinguished. Other callers do not
	// see the change.
	Principal string
}

// key implements item.
func (c Change) key() key {
	if c.Kind == TaskChanged {
		return key{kind: c.Kind, name: c.Task.GetTaskId()}
	}
	return key{kind: c.Kind, name: c.URI}
}

// weight implements item. Lists do not count, because each list is pending at most once.
func (c Change) weight() (items, bytes int) {
	if c.Kind < ResourceUpdated {
		return 0, 0
	}
	return 1, 0
}

// changeError reports a change with missing or unexpected fields.
type changeError struct {
	Kind   Kind
	Reason string
}

// Error implements error.
func (e *changeError) Error() string { return fmt.Sprintf("feed: %s: %s", e.Kind, e.Reason) }

// check refuses what could not be delivered, or not as it is meant: a principal does not hide an updated resource.
func (c *Change) check() error {
	fault := ""
	switch {
	case c.Kind < ToolsListChanged || c.Kind > TaskChanged:
		fault = "there is no such kind"
	case c.Kind != ResourceUpdated && c.URI != "":
		fault = "only an updated resource has a URI"
	case c.Kind != ResourceUpdated && c.Scope != "":
		fault = "only an updated resource has a scope"
	case c.Kind != TaskChanged && c.Task != nil:
		fault = "only a changed task has a task"
	case c.Kind != TaskChanged && c.Principal != "":
		fault = "only a task belongs to a principal"
	case c.Kind == ResourceUpdated && c.URI == "":
		fault = "it does not say which: set its URI"
	case len(c.URI) > maxURIBytes:
		fault = fmt.Sprintf("its URI has %d bytes, over the limit of %d", len(c.URI), maxURIBytes)
	case c.Kind == TaskChanged && c.Task.GetTaskId() == "":
		fault = "it does not say which: set its task, with an id"
	case len(c.Task.GetTaskId()) > maxTaskIDBytes:
		fault = fmt.Sprintf("its task's id has %d bytes, over the limit of %d", len(c.Task.GetTaskId()), maxTaskIDBytes)
	}
	if fault != "" {
		return &changeError{Kind: c.Kind, Reason: fault}
	}
	return nil
}

// Notification returns the change as a notification of the contract, or nil for a change of unknown kind. It shares the task.
func (c *Change) Notification() *outriggerv1.Notification {
	_, method := c.Kind.about()
	if method == "" {
		return nil
	}
	n := &outriggerv1.Notification{Method: method}
	switch c.Kind {
	case ResourceUpdated:
		n.ParamsForm = &outriggerv1.Notification_ParamsJson{ParamsJson: append(jsontext.AppendString([]byte(`{"uri":`), c.URI), '}')}
	case TaskChanged:
		n.ParamsForm = &outriggerv1.Notification_Task{Task: c.Task}
	}
	return n
}

// Acknowledgement returns the first notification of a change feed. It says which of the requested changes will be reported.
func Acknowledgement(honoured *outriggerv1.ChangeFilter) *outriggerv1.Notification {
	return &outriggerv1.Notification{
		Method:     methodAcknowledged,
		ParamsForm: &outriggerv1.Notification_Acknowledged{Acknowledged: honoured},
	}
}

// Filter selects changes. The zero value selects none. This is not an error: such a subscription waits until it ends.
type Filter struct {
	// Tools, Prompts and Resources select changes of these lists.
	Tools, Prompts, Resources bool
	// ResourceURIs selects updates of these resources and the resources below them, at most [MaxURIs]. An updated URI is at or
	// below a URI of the filter in three cases: it is the same; it begins with the filter's URI followed by one of / ? #; or it
	// begins with the filter's URI and that ends in a slash. URIs are compared byte by byte (RFC 3986, section 6.2.1), without
	// normalization.
	ResourceURIs []string
	// Scoped selects updates that are published with a scope, at most [MaxURIs].
	Scoped []Scoped
	// TaskIDs selects changes of these tasks, at most [MaxTaskIDs].
	TaskIDs []string
	// Principal is the subscriber. It does not see changes of tasks of others.
	Principal string
}

// Scoped is a resource whose updates only some callers get. Its URI is compared as a whole.
type Scoped struct{ URI, Scope string }

// wants takes a filter apart. Each thing comes once.
func (f *Filter) wants() ([]want, error) {
	if err := checkNames("resource URI", f.ResourceURIs, MaxURIs, maxURIBytes); err != nil {
		return nil, err
	}
	if err := checkNames("task id", f.TaskIDs, MaxTaskIDs, maxTaskIDBytes); err != nil {
		return nil, err
	}
	scoped, err := distinctScoped(f.Scoped)
	if err != nil {
		return nil, err
	}
	uris, ids := distinct(f.ResourceURIs), distinct(f.TaskIDs)
	out := make([]want, 0, 3+len(uris)+len(scoped)+len(ids))
	for _, list := range []struct {
		isWanted bool
		kind     Kind
	}{{f.Tools, ToolsListChanged}, {f.Prompts, PromptsListChanged}, {f.Resources, ResourcesListChanged}} {
		if list.isWanted {
			out = append(out, want{key: key{kind: list.kind}})
		}
	}
	out = appendURIs(out, uris)
	for _, s := range scoped {
		out = append(out, want{key: key{ResourceUpdated, s.URI, s.Scope}})
	}
	for _, id := range ids {
		out = append(out, want{key: key{TaskChanged, id, f.Principal}})
	}
	for i := range out {
		out[i].key.name = strings.Clone(out[i].key.name) // it may be a part of a whole request
	}
	return out, nil
}

// distinctScoped checks the scoped resources, and returns each once.
func distinctScoped(scoped []Scoped) ([]Scoped, error) {
	uris := make([]string, len(scoped))
	for i, s := range scoped {
		uris[i] = s.URI
		if s.Scope == "" {
			return nil, &FilterError{Field: "resource URI", Index: i, Reason: "its scope is empty"}
		}
	}
	if err := checkNames("resource URI", uris, MaxURIs, maxURIBytes); err != nil {
		return nil, err
	}
	return slices.Compact(slices.SortedFunc(slices.Values(scoped), func(a, b Scoped) int {
		return cmp.Or(cmp.Compare(a.URI, b.URI), cmp.Compare(a.Scope, b.Scope))
	})), nil
}

// appendURIs marks the URIs that another one covers. Of the others at most one covers any given URI, since covering is
// transitive, so no update can come twice.
func appendURIs(out []want, sorted []string) []want {
	// open are the uncovered URIs so far that the current one begins with: they follow each other, the shortest first.
	var open []string
	for _, uri := range sorted {
		for len(open) > 0 && !strings.HasPrefix(uri, open[len(open)-1]) {
			open = open[:len(open)-1]
		}
		isCovered := slices.ContainsFunc(open, func(o string) bool { return covers(o, uri) })
		if !isCovered {
			open = append(open, uri)
		}
		out = append(out, want{key: key{kind: ResourceUpdated, name: uri}, isCovered: isCovered})
	}
	return out
}

// covers is the rule of [Filter.ResourceURIs].
func covers(wanted, uri string) bool {
	return strings.HasPrefix(uri, wanted) && endsAt(uri, len(wanted))
}

// endsAt reports whether the first n bytes of a URI cover all of it.
func endsAt(uri string, n int) bool {
	return n == len(uri) || uri[n-1] == '/' || uri[n] == '/' || uri[n] == '?' || uri[n] == '#'
}

// selects reports whether a pending change is one of those that f asks for.
func (f *Filter) selects(c Change) bool {
	switch c.Kind {
	case ToolsListChanged:
		return f.Tools
	case PromptsListChanged:
		return f.Prompts
	case ResourcesListChanged:
		return f.Resources
	case ResourceUpdated:
		return slices.ContainsFunc(f.ResourceURIs, func(wanted string) bool { return covers(wanted, c.URI) }) ||
			slices.ContainsFunc(f.Scoped, func(wanted Scoped) bool { return wanted.URI == c.URI })
	default:
		return slices.Contains(f.TaskIDs, c.Task.GetTaskId())
	}
}

// Limits of a feed that no setting changes.
const (
	// defaultMaxPending allows a subscriber to as many resources as a filter may name to have all of them pending.
	defaultMaxPending = max(MaxURIs, MaxTaskIDs)
	// defaultMaxFilterBytes allows each of 10,000 subscribers about fifty URIs of usual length.
	defaultMaxFilterBytes = 64 << 20
)

// FeedOptions configure a [Feed].
type FeedOptions struct {
	// MaxSubscribers is the maximum number of subscriptions at a time. Zero means [defaults.MaxStreams].
	MaxSubscribers int
	// MaxPending is the maximum number of pending resources and tasks together of a subscriber. Zero means
	// [defaultMaxPending]. Each list may be pending once in addition.
	MaxPending int
	// MaxBytes bounds what all subscriptions ask for together: the bytes of the URIs and task ids, plus 64 bytes for each. Zero
	// means [defaultMaxFilterBytes].
	MaxBytes int
}

// Feed delivers changes to subscribers: of the lists of tools, prompts and resources, of the contents of resources, and of
// tasks. It checks no permission except a task's principal. Make one with [NewFeed].
type Feed struct {
	hub[Change]

	// lengths counts the unscoped URIs by their length, so that of the many beginnings of a long URI only those are looked up
	// that can be there. The hub's lock guards it.
	lengths map[int]int
	// sources are what reports the feed's changes.
	sources sources
}

// sources are what reports the changes of a feed: each hears of what is subscribed to, and may be waited for. Its lock is taken below
// that of the feed.
type sources struct {
	mu       sync.Mutex
	interest []chan struct{}
	settle   []func(context.Context)
}

func (s *sources) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.interest {
		wake(one)
	}
}

// NewFeed returns a feed without subscribers.
func NewFeed(o FeedOptions) *Feed {
	defaults.Fill(&o.MaxSubscribers, defaults.MaxStreams)
	defaults.Fill(&o.MaxPending, defaultMaxPending)
	defaults.Fill(&o.MaxBytes, defaultMaxFilterBytes)
	f := &Feed{lengths: map[int]int{}}
	f.init(limits{subscribers: o.MaxSubscribers, cost: o.MaxBytes, items: o.MaxPending})
	f.onTopic = func(t *topic[Change], isNew bool) {
		if !f.isClosed {
			f.sources.changed()
		}
		switch n := len(t.key.name); {
		case t.key.kind != ResourceUpdated || t.key.owner != "":
		case isNew:
			f.lengths[n]++
		case f.lengths[n] > 1:
			f.lengths[n]--
		default:
			delete(f.lengths, n)
		}
	}
	return f
}

// Publish delivers a change to the subscribers that want it. It never waits for their readers. The error is a *[changeError]
// or [ErrClosed]; then no subscriber gets the change. Subscribers may see concurrently published changes in different orders.
func (f *Feed) Publish(c Change) error {
	if err := c.check(); err != nil {
		return err
	}
	_, err := f.publish(func() (Change, []*topic[Change]) {
		found := f.about(&c)
		c.Scope = ""
		if n := len(found); n > 0 && c.Kind == ResourceUpdated {
			// The URI may be a part of a whole message. The longest of its beginnings comes last.
			if name := found[n-1].key.name; len(name) == len(c.URI) {
				c.URI = name
			} else {
				c.URI = strings.Clone(c.URI)
			}
		}
		return c, found
	})
	return err
}

// about returns the topics that a change belongs to.
func (f *Feed) about(c *Change) (found []*topic[Change]) {
	find := func(k key) {
		if t, ok := f.topics[k]; ok {
			found = append(found, t)
		}
	}
	switch {
	case c.Kind != ResourceUpdated || c.Scope != "":
		k := c.key()
		k.owner = c.Principal + c.Scope // a change has at most one of them
		find(k)
	case len(f.lengths) > 0:
		for n := 1; n <= len(c.URI); n++ {
			if endsAt(c.URI, n) && f.lengths[n] > 0 {
				find(key{kind: ResourceUpdated, name: c.URI[:n]})
			}
		}
	}
	return found
}

// Subscription is one reader's view of the changes. It must be closed. It has one reader at a time.
type Subscription struct {
	subscription[Change]

	principal string
}

// Subscribe returns a subscription to the changes that filter selects. Every change published after Subscribe has returned
// reaches it. The error is [ErrFull], [ErrClosed] or a *[FilterError].
func (f *Feed) Subscribe(filter Filter) (*Subscription, error) {
	filter.Principal = strings.Clone(filter.Principal) // one copy for all of its tasks
	wants, err := filter.wants()
	if err != nil {
		return nil, err
	}
	s := &Subscription{principal: filter.Principal}
	if err := f.join(&s.subscription, wants); err != nil {
		return nil, err
	}
	return s, nil
}

// Refilter replaces the filter of the subscription, in one step. Changes that both filters select are neither missed nor
// delivered twice. Pending changes that the new one does not select are discarded. The principal does not change. The error is
// [ErrFull], a *[FilterError], or [ErrClosed] if the subscription has ended. After an error nothing has changed.
func (s *Subscription) Refilter(filter Filter) error {
	filter.Principal = s.principal
	wants, err := filter.wants()
	if err != nil {
		return err
	}
	return s.reseat(wants, filter.selects)
}

// Interest returns the union of all subscriptions' filters, with URIs and task ids sorted and without duplicates, without a
// principal and without scoped resources. It is empty once the feed is closed. Its cost grows with everything that is
// subscribed to.
func (f *Feed) Interest() Filter {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var out Filter
	for k := range f.topics {
		switch {
		case k.kind == ToolsListChanged:
			out.Tools = true
		case k.kind == PromptsListChanged:
			out.Prompts = true
		case k.kind == ResourcesListChanged:
			out.Resources = true
		case k.kind == TaskChanged:
			out.TaskIDs = append(out.TaskIDs, k.name)
		case k.owner == "":
			out.ResourceURIs = append(out.ResourceURIs, k.name)
		}
	}
	slices.Sort(out.ResourceURIs)
	slices.Sort(out.TaskIDs)
	out.TaskIDs = slices.Compact(out.TaskIDs)
	return out
}

// OnInterest returns a channel for a source of the feed's changes, that has a value to receive when the result of [Feed.Interest] may
// have changed since the last receive, but not for the end of the feed; and what ends it.
func (f *Feed) OnInterest() (changed <-chan struct{}, forget func()) {
	one := make(chan struct{}, 1)
	f.sources.mu.Lock()
	defer f.sources.mu.Unlock()
	f.sources.interest = append(f.sources.interest, one)
	return one, func() {
		f.sources.mu.Lock()
		defer f.sources.mu.Unlock()
		f.sources.interest = slices.DeleteFunc(f.sources.interest, func(other chan struct{}) bool { return other == one })
	}
}

// OnSettle adds a function that waits until a source of the feed's changes reports the current [Feed.Interest], or until its
// context ends.
func (f *Feed) OnSettle(settle func(context.Context)) {
	f.sources.mu.Lock()
	defer f.sources.mu.Unlock()
	f.sources.settle = append(f.sources.settle, settle)
}

// Settle waits until the sources report everything that is subscribed to now, as far as the functions of [Feed.OnSettle] can
// tell. Without such a function it returns at once. A subscriber that gets its acknowledgement afterwards misses nothing from
// then on, although the changes come from elsewhere. Settle returns early when ctx ends.
func (f *Feed) Settle(ctx context.Context) {
	f.sources.mu.Lock()
	all := slices.Clone(f.sources.settle)
	f.sources.mu.Unlock()
	var waiting sync.WaitGroup
	for _, settle := range all {
		waiting.Go(func() { settle(ctx) })
	}
	waiting.Wait()
}
