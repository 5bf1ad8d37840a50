// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	k8syaml "sigs.k8s.io/yaml"
)

const (
	// MaxManifestBytes bounds a manifest, with all its documents.
	MaxManifestBytes = 32 << 20
	// maxDocumentBytes and maxWorkloads bound a document with workloads: each edit reads it
	// once more.
	maxDocumentBytes = 1 << 20
	maxWorkloads     = 100
	// maxDifferences bounds what is listed of one document.
	maxDifferences = 20
)

// Manifest is what offline injection may do with documents.
type Manifest struct {
	// All selects every pod that is not labelled, as if its namespace were enabled.
	All bool
	// Remove takes the sidecar out instead.
	Remove bool
}

// Result says what became of one pod template of a manifest.
type Result struct {
	// Document counts from 1. Kind and Name are of the object that has the template.
	Document   int
	Kind, Name string
	Decision   Decision
	// Differences lists the fields in which the object changes, at most 20.
	Differences []string
	// Kept lists what a former injection wrote and people changed since: it stays.
	Kept []string
}

// Changed reports whether the object is rendered with other content.
func (r Result) Changed() bool { return len(r.Differences) > 0 }

// Documents injects the sidecar into the workloads of a YAML or JSON text with any number
// of documents. Everything else stays as it is, byte for byte; in a workload, comments and
// the order of fields stay. An injected workload is injected anew, so that it has
// what this version renders.
func (i *Injector) Documents(text []byte, o Manifest) ([]byte, []Result, error) {
	if len(text) > MaxManifestBytes {
		return nil, nil, fmt.Errorf("the manifest has %d bytes, the limit is %d; split it", len(text), MaxManifestBytes)
	}
	chunks := split(text)
	spaces, err := namespaces(chunks)
	if err != nil {
		return nil, nil, err
	}
	var results []Result
	for n, chunk := range chunks {
		changed, found, err := i.document(chunk, spaces, o)
		if err != nil {
			return nil, nil, fmt.Errorf("document %d: %w", n+1, err)
		}
		for m := range found {
			found[m].Document = n + 1
		}
		results = append(results, found...)
		chunks[n] = changed
	}
	return bytes.Join(chunks, nil), results, nil
}

// split cuts a text before each line that begins a document, with the directives before it, and behind each that ends one. Joined,
// the parts are the text again.
func split(text []byte) [][]byte {
	var out [][]byte
	start, at := 0, 0
	directives := false
	cut := func(here int) {
		if here > start {
			out = append(out, text[start:here])
			start = here
		}
		directives = false
	}
	for line := range bytes.Lines(text) {
		switch {
		case marks(line, "..."):
			cut(at + len(line))
		case marks(line, "---") && !directives:
			cut(at)
		case line[0] == '%' && at == start:
			directives = true
		}
		directives = directives && !marks(line, "---")
		at += len(line)
	}
	return append(out, text[start:])
}

// marks reports whether a line begins or ends a document.
func marks(line []byte, mark string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(mark))
	return ok && (len(rest) == 0 || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

// workload is a pod template in a document.
type workload struct {
	kind, name, namespace string
	// path leads from the document to the pod.
	path []string
}

// workloads finds the pod templates of an object and of the items of a List.
func workloads(object map[string]any, at []string) []workload {
	kind, _ := object["kind"].(string)
	meta, _ := object["metadata"].(map[string]any)
	w := workload{kind: kind}
	w.name, _ = meta["name"].(string)
	w.namespace, _ = meta["namespace"].(string)
	if w.name == "" {
		w.name, _ = meta["generateName"].(string)
	}
	inner, ok := map[string][]string{
		"Pod": {}, "Deployment": {"spec", "template"}, "StatefulSet": {"spec", "template"}, "DaemonSet": {"spec", "template"},
		"ReplicaSet": {"spec", "template"}, "ReplicationController": {"spec", "template"}, "Job": {"spec", "template"},
		"CronJob": {"spec", "jobTemplate", "spec", "template"},
	}[kind]
	if group, _ := object["apiVersion"].(string); ok && group != "" && group != "v1" && !strings.HasPrefix(group, "apps/") && !strings.HasPrefix(group, "batch/") {
		return nil // the Job of another API, such as Volcano's
	}
	if ok {
		w.path = append(slices.Clone(at), inner...)
		return []workload{w}
	}
	var out []workload
	if items, ok := object["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		for n, item := range items {
			if m, ok := item.(map[string]any); ok {
				if _, named := m["kind"]; !named { // as in a PodList
					m["kind"] = strings.TrimSuffix(kind, "List")
				}
				out = append(out, workloads(m, append(slices.Clone(at), "items", strconv.Itoa(n)))...)
			}
		}
	}
	return out
}

// namespaces reads the Namespaces among the documents: their labels and
// annotations count for pods in them.
func namespaces(chunks [][]byte) (map[string]Namespace, error) {
	out := map[string]Namespace{}
	for n, chunk := range chunks {
		var object struct {
			Kind     string `yaml:"kind"`
			Metadata struct {
				Name        string            `yaml:"name"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"metadata"`
		}
		var node yaml.Node
		if err := yaml.Unmarshal(chunk, &node); err != nil {
			return nil, fmt.Errorf("document %d: %w", n+1, err)
		}
		if node.Decode(&object) == nil && object.Kind == "Namespace" {
			out[object.Metadata.Name] = Namespace{Name: object.Metadata.Name, Labels: object.Metadata.Labels, Annotations: object.Metadata.Annotations}
		}
	}
	return out, nil
}

// document handles one document.
func (i *Injector) document(chunk []byte, spaces map[string]Namespace, o Manifest) ([]byte, []Result, error) {
	var before map[string]any
	if err := yaml.Unmarshal(chunk, &before); err != nil {
		var mismatch *yaml.TypeError
		if errors.As(err, &mismatch) {
			return chunk, nil, nil // no object at all
		}
		return nil, nil, err
	}
	found := workloads(before, nil)
	if len(found) > maxWorkloads || len(found) > 0 && len(chunk) > maxDocumentBytes {
		return nil, nil, fmt.Errorf("%d workloads and %d bytes are too much for one document, the limits are %d and %d; split its List", len(found), len(chunk), maxWorkloads, maxDocumentBytes)
	}
	var results []Result
	for _, w := range found {
		was := chunk
		decision, kept, err := Decision{}, []string(nil), error(nil)
		if chunk, kept, err = takeOut(chunk, w.path); err == nil && !o.Remove {
			// What has the sidecar keeps it, unless a label says otherwise.
			chunk, decision, err = i.putIn(chunk, w, spaces, o.All || !bytes.Equal(was, chunk))
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s %s: %w", w.kind, w.name, err)
		}
		r := Result{Kind: w.kind, Name: w.name, Decision: decision, Kept: kept}
		if !bytes.Equal(was, chunk) {
			if r.Differences, err = differences(was, chunk); err != nil {
				return nil, nil, err
			}
		}
		if len(r.Differences) == 0 {
			chunk = was
		}
		results = append(results, r)
	}
	return chunk, results, nil
}

// putIn injects the sidecar into one pod template.
func (i *Injector) putIn(chunk []byte, w workload, spaces map[string]Namespace, all bool) ([]byte, Decision, error) {
	pod, err := podAt(chunk, w.path)
	if err != nil {
		return nil, Decision{}, err
	}
	space, known := spaces[w.namespace]
	if !known {
		space = Namespace{Name: w.namespace}
	}
	if _, labelled := space.Labels[Label]; all && !labelled {
		space.Labels = map[string]string{Label: Enabled}
	}
	d := i.Decide(pod, space)
	for _, e := range d.Edits {
		e.Path = append(slices.Clone(w.path), e.Path...)
		if chunk, err = e.text(chunk); err != nil {
			return nil, Decision{}, err
		}
	}
	return chunk, d, nil
}

// podAt reads the pod at a path of a document, as kubectl does: yes is true, and 8080 as a key is text.
func podAt(chunk []byte, path []string) (*corev1.Pod, error) {
	text, err := k8syaml.YAMLToJSON(chunk)
	if err != nil {
		return nil, err
	}
	for n, name := range path {
		if text, err = member(text, name); err != nil || text == nil {
			return nil, fmt.Errorf("%s is missing", strings.Join(path[:n+1], "."))
		}
	}
	pod := new(corev1.Pod)
	if err := json.Unmarshal(text, pod); err != nil {
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) {
			hint := ""
			if mismatch.Type.Kind() == reflect.String {
				hint = "; write it in quotes"
			}
			found := strings.NewReplacer("array", "list", "object", "map").Replace(mismatch.Value)
			return nil, fmt.Errorf("%s: a %s where a %s is needed%s", strings.Join(append(slices.Clone(path), mismatch.Field), "."), found, wanted(mismatch.Type), hint)
		}
		return nil, fmt.Errorf("%s: %w", strings.Join(path, "."), err)
	}
	if len(pod.Spec.Containers) == 0 {
		return nil, fmt.Errorf("%s: there are no containers", strings.Join(append(slices.Clone(path), "spec", "containers"), "."))
	}
	return pod, nil
}

// wanted is a type as YAML has it.
func wanted(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // others are called what they are
	case reflect.Slice:
		return "list"
	case reflect.Map, reflect.Struct:
		return "map"
	case reflect.Int32, reflect.Int64:
		return "whole number"
	}
	return t.Kind().String()
}

// member is an entry of a map or an element of a list, nil where there is none.
func member(text json.RawMessage, name string) (json.RawMessage, error) {
	if n, err := strconv.Atoi(name); err == nil {
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil || n >= len(list) {
			return nil, err
		}
		return list[n], nil
	}
	var entries map[string]json.RawMessage
	err := json.Unmarshal(text, &entries)
	return entries[name], err
}

// takeOut undoes an injection, as its mark says. Without a mark nothing happens. It returns
// what it left, because people have changed it since.
func takeOut(chunk []byte, path []string) ([]byte, []string, error) {
	pod, err := podAt(chunk, path)
	if err != nil || pod.Annotations[MarkAnnotation] == "" {
		return chunk, nil, err
	}
	var m mark
	if err := json.Unmarshal([]byte(pod.Annotations[MarkAnnotation]), &m); err != nil {
		return nil, nil, fmt.Errorf("annotation %s: %w; remove the sidecar by hand", MarkAnnotation, err)
	}
	at := func(names ...string) []string { return append(slices.Clone(path), names...) }
	steps := []removal{{path: at("metadata", "annotations"), key: MarkAnnotation}, {path: at("spec", "initContainers"), name: containerName}}
	var kept []string
	for _, app := range m.Sleep {
		n := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == app })
		switch {
		case n < 0:
			kept = append(kept, fmt.Sprintf("spec.containers: %s is gone; if it has another name now, its lifecycle.preStop stays", clip(app)))
		case m.sleeps(pod.Spec.Containers[n].Lifecycle):
			steps = append(steps, removal{path: at("spec", "containers", strconv.Itoa(n), "lifecycle"), key: "preStop"})
		default:
			kept = append(kept, fmt.Sprintf("spec.containers[%d].lifecycle.preStop of %s is no longer the sleep of %ds that was injected", n, clip(app), m.SleepSeconds))
		}
	}
	for _, v := range m.Volumes {
		steps = append(steps, removal{path: at("spec", "volumes"), name: v})
	}
	now := pod.Spec.TerminationGracePeriodSeconds
	restore := m.RaisedTo != 0 && now != nil && *now == m.RaisedTo
	if m.RaisedTo != 0 && !restore {
		kept = append(kept, fmt.Sprintf("spec.terminationGracePeriodSeconds is no longer the %d that was injected", m.RaisedTo))
	}
	if restore && m.Grace == nil {
		steps = append(steps, removal{path: at("spec"), key: "terminationGracePeriodSeconds"})
	}
	if m.Labelled {
		steps = append(steps, removal{path: at("metadata", "labels"), key: sidecarLabel})
	}
	for _, step := range steps {
		if chunk, err = step.text(chunk); err != nil {
			return nil, nil, err
		}
	}
	if restore && m.Grace != nil {
		chunk, err = Edit{Path: at("spec"), Key: "terminationGracePeriodSeconds", Value: *m.Grace}.text(chunk)
	}
	return chunk, kept, err
}

// sleeps reports whether a container still has the preStop hook of the injection.
func (m mark) sleeps(l *corev1.Lifecycle) bool {
	if l == nil || l.PreStop == nil || l.PreStop.Sleep == nil {
		return false
	}
	return *l.PreStop == corev1.LifecycleHandler{Sleep: l.PreStop.Sleep} && l.PreStop.Sleep.Seconds == m.SleepSeconds
}

// differences lists the fields in which two documents differ.
func differences(a, b []byte) ([]string, error) {
	var before, after any
	if err := errors.Join(yaml.Unmarshal(a, &before), yaml.Unmarshal(b, &after)); err != nil {
		return nil, err
	}
	var out []string
	compare("", before, after, &out)
	if len(out) > maxDifferences {
		out = append(out[:maxDifferences], fmt.Sprintf("and %d more", len(out)-maxDifferences))
	}
	return out, nil
}

func compare(path string, a, b any, out *[]string) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			names := map[string]bool{}
			for name := range x {
				names[name] = true
			}
			for name := range y {
				names[name] = true
			}
			for _, name := range sorted(names) {
				compare(strings.TrimPrefix(path+"."+name, "."), x[name], y[name], out)
			}
			return
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for n := range x {
				compare(fmt.Sprintf("%s[%d]", path, n), x[n], y[n], out)
			}
			return
		} else if ok {
			*out = append(*out, fmt.Sprintf("%s: %s become %s", path, elements(x), elements(y)))
			return
		}
	}
	old, next := brief(a), brief(b)
	if old != next {
		*out = append(*out, fmt.Sprintf("%s: %s becomes %s", path, old, next))
	}
}

func elements(list []any) string {
	if len(list) == 1 {
		return "1 element"
	}
	return strconv.Itoa(len(list)) + " elements"
}

// brief is a value in few words.
func brief(v any) string {
	if v == nil {
		return "nothing"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return clip(string(text))
}
