// SPDX-License-Identifier: Apache-2.0

package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/outrigger-mcp/outrigger/deploy/inject"
)

const (
	// readTimeout bounds one look at a namespace, ConfigMap or Secret.
	readTimeout = time.Second
	// maxWarningBytes is what the API server passes on of a warning.
	maxWarningBytes = 256
)

// Decider decides about pods with what the cluster has.
type Decider struct {
	Injector *inject.Injector
	// Namespaces is a cache, Direct the API server itself.
	Namespaces, Direct client.Reader
}

// Decide says what becomes of a pod in a namespace.
func (d *Decider) Decide(ctx context.Context, pod *corev1.Pod, namespace string) (inject.Decision, error) {
	space, err := d.namespace(ctx, namespace)
	if err != nil {
		return inject.Decision{}, fmt.Errorf("read the namespace %s: %w", namespace, err)
	}
	return d.in(ctx, pod, space), nil
}

// in decides about a pod in a namespace that was read.
func (d *Decider) in(ctx context.Context, pod *corev1.Pod, space inject.Namespace) inject.Decision {
	decision := d.Injector.Decide(pod, space)
	if decision.Outcome != inject.Injected {
		return decision
	}
	if s := decision.ConfigMap; s.Name != "" {
		var object corev1.ConfigMap
		if missing, hasObject := d.missing(ctx, space.Name, s, &object, func() bool {
			_, text := object.Data[s.Key]
			_, binary := object.BinaryData[s.Key]
			return text || binary
		}); missing {
			return decision.Missing("ConfigMap", s, hasObject)
		}
	}
	if s := decision.Secret; s.Name != "" {
		var object corev1.Secret
		if missing, hasObject := d.missing(ctx, space.Name, s, &object, func() bool { return len(object.Data[s.Key]) > 0 }); missing {
			return decision.Missing("Secret", s, hasObject)
		}
	}
	return decision
}

// missing reports whether a source is known to be missing. A source that may not be read,
// as a Secret with a name of its team, or that cannot be read now, counts as there.
func (d *Decider) missing(ctx context.Context, namespace string, s inject.Source, into client.Object, hasKey func() bool) (missing, hasObject bool) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := d.Direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: s.Name}, into)
	if err != nil {
		return apierrors.IsNotFound(err), false
	}
	return !hasKey(), true
}

func (d *Decider) namespace(ctx context.Context, name string) (inject.Namespace, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var object corev1.Namespace
	err := d.Namespaces.Get(ctx, client.ObjectKey{Name: name}, &object)
	if apierrors.IsNotFound(err) { // made a moment ago
		err = d.Direct.Get(ctx, client.ObjectKey{Name: name}, &object)
	}
	return spaceOf(&object), err
}

func spaceOf(object *corev1.Namespace) inject.Namespace {
	return inject.Namespace{Name: object.Name, Labels: object.Labels, Annotations: object.Annotations}
}

// Handler is the admission webhook. It allows every pod.
type Handler struct {
	Decider *Decider
	Audit   *Audit
	Metrics *Metrics
}

// Handle decides about one pod.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create || req.Kind.Kind != "Pod" || req.Kind.Group != "" || req.SubResource != "" {
		return admission.Allowed("not the creation of a pod")
	}
	began := time.Now()
	var pod corev1.Pod
	decision, err := inject.Decision{}, json.Unmarshal(req.Object.Raw, &pod)
	if err == nil {
		decision, err = h.Decider.Decide(ctx, &pod, req.Namespace)
	}
	res := admission.Allowed("")
	if err == nil && decision.Outcome == inject.Injected {
		res.Patch, err = decision.JSONPatch(req.Object.Raw)
		kind := admissionv1.PatchTypeJSONPatch
		res.PatchType = &kind
	}
	if err != nil {
		res = admission.Allowed("")
		decision = inject.Decision{Outcome: failed, Reason: failed, Message: err.Error()}
	}
	res.AuditAnnotations = map[string]string{"decision": string(decision.Outcome) + " " + string(decision.Reason)}
	if decision.Outcome == inject.Refused || decision.Outcome == failed {
		res.Warnings = []string{warning(decision.Message)}
	}
	h.Metrics.decided(decision)
	h.Audit.write(entryOf(req, &pod, decision, time.Since(began)))
	return res
}

// failed is the outcome and the reason of a decision that was not possible.
const failed = "failed"

func warning(message string) string {
	text := "outrigger: the pod starts without the sidecar: " + message
	if len(text) > maxWarningBytes {
		text = text[:maxWarningBytes-3] + "..."
	}
	return text
}

// entryOf is the line of the audit trail for a decision.
func entryOf(req admission.Request, pod *corev1.Pod, d inject.Decision, took time.Duration) Entry {
	e := Entry{
		Event: "injection", Request: string(req.UID), Namespace: req.Namespace, Pod: req.Name, User: req.UserInfo.Username,
		Outcome: string(d.Outcome), Reason: string(d.Reason), Field: d.Field, Message: d.Message, DurationMS: float64(took.Microseconds()) / 1000,
		DryRun: req.DryRun != nil && *req.DryRun,
	}
	if e.Pod == "" {
		e.Pod = pod.Name
	}
	if e.Pod == "" {
		e.Pod = pod.GenerateName + "*"
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		e.Owner = owner.Kind + "/" + owner.Name
	}
	if d.Outcome == inject.Injected {
		e.Image = d.Image
	}
	return e
}
