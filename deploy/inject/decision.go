// SPDX-License-Identifier: Apache-2.0

package inject

import "fmt"

// Outcome is what becomes of a pod.
type Outcome string

const (
	// Injected: the pod gets the sidecar.
	Injected Outcome = "injected"
	// Present: the pod has a sidecar already and is left alone.
	Present Outcome = "present"
	// Skipped: the pod does not ask for a sidecar.
	Skipped Outcome = "skipped"
	// Refused: the pod asks for a sidecar and starts without one.
	Refused Outcome = "refused"
)

// Reason is a short word for why, as events and metrics have it.
type Reason string

const (
	// Selected is the reason of an injection.
	Selected Reason = "Selected"
	// AlreadyInjected and FromManifest are the reasons of Present.
	AlreadyInjected Reason = "AlreadyInjected"
	// FromManifest says that the sidecar was put there by Kustomize or by hand.
	FromManifest Reason = "FromManifest"
	// NotSelected, OptedOut and SystemNamespace are the reasons of Skipped.
	NotSelected Reason = "NotSelected"
	// OptedOut says that the label of the pod or namespace is Disabled.
	OptedOut Reason = "OptedOut"
	// SystemNamespace says that no pod of the namespace is ever changed.
	SystemNamespace Reason = "SystemNamespace"
	// BadLabel and those below are the reasons of Refused.
	BadLabel Reason = "BadLabel"
	// BadAnnotation says that an annotation is unknown or has a bad value.
	BadAnnotation Reason = "BadAnnotation"
	// NoPort says that the app's port is not known.
	NoPort Reason = "NoPort"
	// PortTaken says that the app uses a port of the sidecar.
	PortTaken Reason = "PortTaken"
	// NameTaken says that the pod uses a name of the sidecar for something else.
	NameTaken Reason = "NameTaken"
	// Unsupported says that pods of this kind cannot have the sidecar.
	Unsupported Reason = "Unsupported"
	// SourceMissing says that the ConfigMap or the Secret is missing.
	SourceMissing Reason = "SourceMissing"
)

// Refusal says why a pod starts without the sidecar, and what to do.
type Refusal struct {
	Reason Reason
	// Field is the label, annotation or field of the pod that is at fault.
	Field   string
	Message string
}

func (r *Refusal) Error() string {
	if r.Field == "" {
		return r.Message
	}
	return r.Field + ": " + r.Message
}

func refuse(reason Reason, field, message string) *Refusal {
	return &Refusal{Reason: reason, Field: field, Message: message}
}

// Decision is what becomes of one pod, and why.
type Decision struct {
	Outcome Outcome
	Reason  Reason
	// Field is the label, annotation or field of the pod that decided; it may be empty.
	Field string
	// Message is a sentence for people.
	Message string
	// Edits put the sidecar into the pod. They are empty unless it is injected.
	Edits []Edit
	// Image is that of the sidecar.
	Image string
	// ConfigMap and Secret are what the sidecar mounts from the pod's namespace; the
	// names may be empty.
	ConfigMap, Secret Source
	// RestartMissed reports whether the pod asks to be evicted if it was missed.
	RestartMissed bool
}

// Source is a ConfigMap or a Secret with the key that the sidecar reads.
type Source struct {
	Name, Key string
	// Annotation is the one that names it.
	Annotation string
}

// Missing turns the decision into a refusal because a source does not exist.
func (d Decision) Missing(kind string, s Source, hasObject bool) Decision {
	what := fmt.Sprintf("the %s %s does not exist in the pod's namespace", kind, s.Name)
	if hasObject {
		what = fmt.Sprintf("the %s %s has no key %s", kind, s.Name, s.Key)
	}
	restart := d.RestartMissed
	d = refused(refuse(SourceMissing, s.Annotation, what+"; create it and restart the pod"))
	d.RestartMissed = restart
	return d
}

func refused(r *Refusal) Decision {
	return Decision{Outcome: Refused, Reason: r.Reason, Field: r.Field, Message: r.Error()}
}

// Edit is one change of a pod. It sets a key of a map, or puts a value first
// in a list.
type Edit struct {
	// Path leads from the pod to the map or list, which may be missing. A list's
	// element is named by its index.
	Path []string
	// Key is the key to set. It is empty for a list.
	Key string
	// Value is what JSON has for it.
	Value any
}
