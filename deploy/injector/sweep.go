// SPDX-License-Identifier: Apache-2.0

package injector

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/outrigger-mcp/outrigger/deploy/inject"
)

const (
	// pageSize is how many objects one answer of the API server has.
	pageSize = 500
	// maxReported bounds the pods whose events are remembered.
	maxReported = 10_000
	// maxNote is what an event holds.
	maxNote = 1000
	// forgetRestart is how long the last restart of an owner's pods is remembered.
	forgetRestart = time.Hour
)

// Sweep reports running pods that ask for a sidecar and have none: those that
// were refused, and those that would get it now. Only the leader
// sweeps. Its exported fields are set before its first use.
type Sweep struct {
	Decider *Decider
	// Client has no cache: a sweep takes pages.
	Client  client.Client
	Events  events.EventRecorder
	Log     logr.Logger
	Audit   *Audit
	Metrics *Metrics
	// Interval is the time between two sweeps.
	Interval time.Duration
	// Restarts limits evictions over the whole cluster.
	Restarts *rate.Limiter

	reported map[types.UID]string
	// restarted has the evictions of an owner's pods.
	restarted map[types.UID]restarts
}

// restarts are the times of the first and the last eviction of one owner's pods. Pods
// that came after the first are spared: with the last, each eviction would expose the successors
// of those before it.
type restarts struct{ first, last time.Time }

// NeedLeaderElection is true: one replica reports.
func (s *Sweep) NeedLeaderElection() bool { return true }

// Start sweeps until the context ends.
func (s *Sweep) Start(ctx context.Context) error {
	s.reported, s.restarted = map[types.UID]string{}, map[types.UID]restarts{}
	ticker := time.NewTicker(s.Interval)
	defer ticker.Stop()
	for {
		result := "done"
		if err := s.once(ctx); err != nil && ctx.Err() == nil {
			result = "failed"
			s.Log.Error(err, "sweep failed")
		}
		s.Metrics.sweeps.WithLabelValues(result).Inc()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// sweepState is what one sweep has found.
type sweepState struct {
	seen   map[types.UID]bool
	counts map[string]int
}

// once looks at the pods of labelled namespaces, and at labelled pods elsewhere.
func (s *Sweep) once(ctx context.Context) error {
	state := sweepState{seen: map[types.UID]bool{}, counts: map[string]int{}}
	spaces := map[string]inject.Namespace{}
	var labelled []string
	if err := pages(ctx, s.Client, nil, func(list *corev1.NamespaceList) {
		for n := range list.Items {
			space := spaceOf(&list.Items[n])
			spaces[space.Name] = space
			if _, found := space.Labels[inject.Label]; found {
				labelled = append(labelled, space.Name)
			}
		}
	}); err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	look := func(list *corev1.PodList) {
		for n := range list.Items {
			if pod := &list.Items[n]; !state.seen[pod.UID] {
				s.look(ctx, pod, spaces[pod.Namespace], &state)
			}
		}
	}
	for _, name := range labelled {
		if err := pages(ctx, s.Client, []client.ListOption{client.InNamespace(name)}, look); err != nil {
			return fmt.Errorf("list pods of the namespace %s: %w", name, err)
		}
	}
	if err := pages(ctx, s.Client, []client.ListOption{client.HasLabels{inject.Label}}, look); err != nil {
		return fmt.Errorf("list labelled pods: %w", err)
	}
	s.Metrics.without.Reset()
	for reason, count := range state.counts {
		s.Metrics.without.WithLabelValues(reason).Set(float64(count))
	}
	for uid := range s.reported {
		if !state.seen[uid] {
			delete(s.reported, uid)
		}
	}
	for uid, at := range s.restarted {
		if time.Since(at.last) > forgetRestart {
			delete(s.restarted, uid)
		}
	}
	return nil
}

// pages lists objects, a page at a time. Each page is a new list: what JSON leaves out, such as the end of the pages and the
// labels of a pod without any, a list that was used keeps.
func pages[T any, L interface {
	*T
	client.ObjectList
}](ctx context.Context, c client.Client, options []client.ListOption, use func(L)) error {
	next := ""
	for {
		list := L(new(T))
		if err := c.List(ctx, list, append(slices.Clone(options), client.Limit(pageSize), client.Continue(next))...); err != nil {
			return err
		}
		use(list)
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// missed is the reason of pods that would get the sidecar now.
const missed = "Missed"

// look reports one pod if it has no sidecar and asks for one.
func (s *Sweep) look(ctx context.Context, pod *corev1.Pod, space inject.Namespace, state *sweepState) {
	if pod.DeletionTimestamp != nil || space.Name == "" {
		return
	}
	state.seen[pod.UID] = true
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	d := s.Decider.in(ctx, pod, space)
	switch d.Outcome {
	case inject.Refused: // also of a Job that was faster than the sweep
		if !ended {
			state.counts[string(d.Reason)]++
		}
		s.report(pod, "InjectionRefused", string(d.Reason), d.Message)
	case inject.Injected:
		if ended {
			return
		}
		state.counts[missed]++
		s.report(pod, "InjectionMissed", missed, "The pod started without the sidecar: it was created before its label, its ConfigMap or its Secret, or while the injector was away. "+s.next(ctx, pod, d))
	}
}

// next restarts a missed pod where that was asked for, and says what happens or what
// to do.
func (s *Sweep) next(ctx context.Context, pod *corev1.Pod, d inject.Decision) string {
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner == nil:
		return "Delete it and create it again: nothing else would."
	case !d.RestartMissed:
		return "Delete it, and its " + owner.Kind + " makes it anew; " + inject.Prefix + "restart-missed: \"true\" has the injector do so."
	case !slices.Contains([]string{"ReplicaSet", "StatefulSet", "DaemonSet"}, owner.Kind):
		return "It is not restarted, because a " + owner.Kind + " would lose its work."
	}
	evicted, before := s.restarted[owner.UID]
	// Times of creation are whole seconds.
	if before && !pod.CreationTimestamp.Time.Before(evicted.first.Truncate(time.Second)) {
		return "It took the place of one that was evicted for that, so the webhook is not reached: look at the API server's log for outrigger-injector. It is not restarted."
	}
	if !s.Restarts.Allow() {
		return "It will be evicted; restarts are limited."
	}
	err := s.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	e := Entry{Event: "restart", Namespace: pod.Namespace, Pod: pod.Name, Owner: owner.Kind + "/" + owner.Name, Outcome: "evicted"}
	if err != nil {
		e.Outcome, e.Message = "refused", err.Error()
	} else {
		evicted.last = time.Now()
		if !before {
			evicted.first = evicted.last
		}
		s.restarted[owner.UID] = evicted
	}
	s.Audit.write(e)
	s.Metrics.restarts.WithLabelValues(e.Outcome).Inc()
	if err != nil {
		return "Its eviction was refused: " + err.Error()
	}
	return "It is evicted, and its " + owner.Kind + " makes it anew."
}

// report makes an event of what is new about a pod.
func (s *Sweep) report(pod *corev1.Pod, event, reason, message string) {
	if s.reported[pod.UID] == message {
		return
	}
	if len(s.reported) < maxReported {
		s.reported[pod.UID] = message
	}
	if len(message) > maxNote {
		message = message[:maxNote]
	}
	s.Events.Eventf(pod, nil, corev1.EventTypeWarning, event, "Inject", "%s", message)
	s.Audit.write(Entry{Event: "missed", Namespace: pod.Namespace, Pod: pod.Name, Outcome: event, Reason: reason, Message: message})
}
