// SPDX-License-Identifier: Apache-2.0

package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/outrigger-mcp/outrigger/deploy/inject"
)

// running is a pod without the sidecar.
func running(name, ownerKind string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Annotations: map[string]string{}, CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Minute))},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "a", Ports: []corev1.ContainerPort{{ContainerPort: 7000}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if ownerKind != "" {
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: ownerKind, Name: "owner", UID: types.UID("owner of " + ownerKind), Controller: &yes}}
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func restart(pod *corev1.Pod) { pod.Annotations["outrigger.dev/restart-missed"] = "true" }

func sweep(t *testing.T, limit *rate.Limiter, objects ...client.Object) (*Sweep, *events.FakeRecorder) {
	t.Helper()
	objects = append(objects, &corev1.Namespace{ObjectMeta: named("shop", inject.Label, inject.Enabled)}, &corev1.Namespace{ObjectMeta: named("plain")}, callers("shop"))
	d, c := decider(t, objects...)
	recorder := events.NewFakeRecorder(1000)
	s := &Sweep{Decider: d, Client: c, Events: recorder, Log: logr.Discard(), Audit: NewAudit(new(journal)), Metrics: testMetrics(t), Restarts: limit}
	s.reported, s.restarted = map[types.UID]string{}, map[types.UID]restarts{}
	return s, recorder
}

func (s *Sweep) mustRun(t *testing.T, recorder *events.FakeRecorder) []string {
	t.Helper()
	if err := s.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	var out []string
	for len(recorder.Events) > 0 {
		out = append(out, <-recorder.Events)
	}
	return out
}

func exists(t *testing.T, s *Sweep, name string) bool {
	t.Helper()
	err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, new(corev1.Pod))
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// TestSweep looks at pods of every kind. Each is reported once, and only those that ask
// for it and have an owner that makes them anew are evicted.
func TestSweep(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		say     string
		evicted bool
		gauge   string
	}{
		"of a ReplicaSet": {running("p", "ReplicaSet", nil), "InjectionMissed The pod started without the sidecar", false, missed},
		"to restart":      {running("p", "ReplicaSet", restart), "It is evicted, and its ReplicaSet makes it anew", true, missed},
		"StatefulSet":     {running("p", "StatefulSet", restart), "It is evicted", true, missed},
		"Job":             {running("p", "Job", restart), "It is not restarted, because a Job would lose its work", false, missed},
		"bare":            {running("p", "", restart), "Delete it and create it again", false, missed},
		"refused": {running("p", "ReplicaSet", func(p *corev1.Pod) { restart(p); p.Spec.Containers[0].Ports = nil }),
			"InjectionRefused outrigger.dev/port: set this annotation", false, "NoPort"},
		"labelled elsewhere": {running("p", "ReplicaSet", func(p *corev1.Pod) { p.Namespace, p.Labels = "plain", map[string]string{inject.Label: "yes"} }),
			`InjectionRefused outrigger.dev/inject: the pod's label says "yes"`, false, "BadLabel"},
		"has ended": {running("p", "Job", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), "", false, ""},
		"refused and has ended": {running("p", "Job", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded; p.Spec.Containers[0].Ports = nil }),
			"InjectionRefused outrigger.dev/port: set this annotation", false, ""},
		"opted out":     {running("p", "", func(p *corev1.Pod) { p.Labels = map[string]string{inject.Label: inject.Disabled} }), "", false, ""},
		"not asked for": {running("p", "", func(p *corev1.Pod) { p.Namespace = "plain" }), "", false, ""},
		"has a sidecar": {running("p", "", func(p *corev1.Pod) {
			p.Annotations[inject.MarkAnnotation] = "{}"
			p.Spec.InitContainers = []corev1.Container{{Name: "sidecar"}}
		}), "", false, ""},
		"config map missing": {running("p", "", func(p *corev1.Pod) { p.Annotations["outrigger.dev/config-map"] = "tools" }), "InjectionRefused outrigger.dev/config-map: the ConfigMap tools does not exist", false, "SourceMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, recorder := sweep(t, rate.NewLimiter(rate.Inf, 1), tc.pod)
			got := s.mustRun(t, recorder)
			if (len(got) == 1) != (tc.say != "") || len(got) > 1 || tc.say != "" && !strings.Contains(got[0], tc.say) {
				t.Errorf("events %q, want %q", got, tc.say)
			}
			if tc.gauge != "" && testutil.ToFloat64(s.Metrics.without.WithLabelValues(tc.gauge)) != 1 {
				t.Errorf("the metric has no pod with the reason %s", tc.gauge)
			}
			if tc.pod.Namespace == "shop" && exists(t, s, "p") == tc.evicted {
				t.Errorf("evicted: %v, want %v", !tc.evicted, tc.evicted)
			}
			if again := s.mustRun(t, recorder); len(again) != 0 {
				t.Errorf("the next sweep says %q", again)
			}
		})
	}
}

// TestRestartsAreBounded: no more than the limit at once, and no owner's pods are
// restarted for ever while the webhook is not reached.
func TestRestartsAreBounded(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for n := range 5 {
		objects = append(objects, running(fmt.Sprintf("p%d", n), "ReplicaSet", restart))
	}
	s, recorder := sweep(t, rate.NewLimiter(0, 2), objects...)
	s.mustRun(t, recorder)
	left := 0
	for n := range 5 {
		if exists(t, s, fmt.Sprintf("p%d", n)) {
			left++
		}
	}
	if left != 3 {
		t.Errorf("%d pods are left, want 3", left)
	}
	s.Restarts = rate.NewLimiter(rate.Inf, 1)
	successor := running("successor", "ReplicaSet", restart)
	successor.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Second))
	if err := s.Client.Create(t.Context(), successor); err != nil {
		t.Fatal(err)
	}
	got := s.mustRun(t, recorder)
	if !exists(t, s, "successor") {
		t.Error("a pod that took the place of an evicted one was evicted too")
	}
	if !slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, "the webhook is not reached") }) {
		t.Errorf("events %q", got)
	}
	for n := range 5 {
		if exists(t, s, fmt.Sprintf("p%d", n)) {
			t.Errorf("p%d is left", n)
		}
	}
}

// TestSuccessorsAreSpared: where the limit spreads the evictions of one owner over several sweeps,
// none takes a successor of an earlier one, until an hour after the last.
func TestSuccessorsAreSpared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pods, every = 3, 30 * time.Second
		var objects []client.Object
		for n := range pods {
			objects = append(objects, running(fmt.Sprintf("old%d", n), "ReplicaSet", restart))
		}
		s, recorder := sweep(t, rate.NewLimiter(rate.Every(every), 1), objects...)
		for n := range pods {
			s.mustRun(t, recorder)
			time.Sleep(time.Second)
			successor := running(fmt.Sprintf("new%d", n), "ReplicaSet", restart) // is listed before the old ones
			successor.CreationTimestamp = metav1.Now()
			if err := s.Client.Create(t.Context(), successor); err != nil {
				t.Fatal(err)
			}
			time.Sleep(every)
		}
		evicted := func() (old, young int) {
			for n := range pods {
				if !exists(t, s, fmt.Sprintf("old%d", n)) {
					old++
				}
				if !exists(t, s, fmt.Sprintf("new%d", n)) {
					young++
				}
			}
			return old, young
		}
		for range 3 {
			s.mustRun(t, recorder)
			time.Sleep(every)
		}
		if old, young := evicted(); old != pods || young != 0 {
			t.Errorf("%d of %d pods and %d successors are evicted", old, pods, young)
		}
		time.Sleep(forgetRestart - 6*every) // an hour after the first, not yet after the last
		s.mustRun(t, recorder)              // would forget
		s.mustRun(t, recorder)
		if _, young := evicted(); young != 0 {
			t.Errorf("%d successors are evicted within an hour of the last eviction", young)
		}
		time.Sleep(3 * every)
		s.mustRun(t, recorder) // forgets
		s.mustRun(t, recorder)
		if _, young := evicted(); young != 1 {
			t.Errorf("%d successors are evicted an hour after the last eviction, want 1", young)
		}
	})
}

// TestEvictionRefused: a disruption budget holds.
func TestEvictionRefused(t *testing.T) {
	t.Parallel()
	s, recorder := sweep(t, rate.NewLimiter(rate.Inf, 1), running("p", "ReplicaSet", restart))
	s.Client = interceptor.NewClient(s.Client.(client.WithWatch), interceptor.Funcs{
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			return apierrors.NewTooManyRequests("the disruption budget shop needs 3 pods", 10)
		},
	})
	got := s.mustRun(t, recorder)
	if len(got) != 1 || !strings.Contains(got[0], "Its eviction was refused: the disruption budget shop needs 3 pods") {
		t.Errorf("events %q", got)
	}
	if n := testutil.ToFloat64(s.Metrics.restarts.WithLabelValues("refused")); n != 1 {
		t.Errorf("%v refusals are counted", n)
	}
}

// TestPages: a page that is decoded from JSON has nothing of the one before it, not even the token that asks for another page.
func TestPages(t *testing.T) {
	t.Parallel()
	texts := []string{
		`{"metadata":{"continue":"2"},"items":[{"metadata":{"name":"a","labels":{"outrigger.dev/inject":"enabled"}}},{"metadata":{"name":"b"}}]}`,
		`{"metadata":{},"items":[{"metadata":{"name":"c"}}]}`,
	}
	asked := 0
	_, c := decider(t)
	paged := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		if asked++; asked > len(texts) {
			return fmt.Errorf("page %d is asked for", asked)
		}
		return json.Unmarshal([]byte(texts[asked-1]), list)
	}})
	var got []string
	err := pages(t.Context(), paged, nil, func(list *corev1.PodList) {
		for n := range list.Items {
			got = append(got, fmt.Sprintf("%s %d", list.Items[n].Name, len(list.Items[n].Labels)))
		}
	})
	if want := []string{"a 1", "b 0", "c 0"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
