// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/node"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// pods is where the API server has them.
const pods = "/api/v1/namespaces/" + namespace + "/pods"

// pod is a pod on the node.
type pod struct {
	n         *node.Node
	namespace string
	name      string
	path      string
	logs      map[string]*journal
}

// podStatus is what the tests read of a pod.
type podStatus struct {
	Metadata struct {
		UID               string
		DeletionTimestamp string
	}
	Status struct {
		Phase                 string
		PodIP                 string
		Conditions            []node.Condition
		InitContainerStatuses []containerStatus
		ContainerStatuses     []containerStatus
	}
}

type containerStatus struct {
	Name         string
	ContainerID  string
	Ready        bool
	Started      *bool
	RestartCount int
	State        containerState
	LastState    containerState
}

type containerState struct {
	Waiting    *struct{ Reason, Message string }
	Running    *struct{ StartedAt time.Time }
	Terminated *struct {
		ExitCode              int
		Reason                string
		StartedAt, FinishedAt time.Time
	}
}

// container returns the status of a container.
func (s podStatus) container(name string) containerStatus {
	for _, list := range [][]containerStatus{s.Status.InitContainerStatuses, s.Status.ContainerStatuses} {
		for _, c := range list {
			if c.Name == name {
				return c
			}
		}
	}
	return containerStatus{}
}

func (s podStatus) ready() bool {
	for _, c := range s.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// run makes the pod of an example for real, with what it needs: its own
// ConfigMaps, Secrets and so on are applied first. change may be nil.
func run(t *testing.T, n *node.Node, example, name string, change func(object)) *pod {
	t.Helper()
	all := render(t, example)
	for _, o := range all {
		switch o.kind() {
		case "Namespace", "Deployment", "PodMonitor", "HTTPRoute", "GRPCRoute":
			// The namespace is there, and nothing here acts upon the others.
		default:
			apply(t, n, o, false)
		}
	}
	o := podOf(t, deploymentOf(t, all), name)
	if change != nil {
		change(o)
	}
	return place(t, n, o, "sidecar", "fleet")
}

// place makes a pod, with the containers whose logs are wanted, until the end of the test.
func place(t *testing.T, n *node.Node, o object, containers ...string) *pod {
	t.Helper()
	in, name := o.meta()["namespace"].(string), o.name()
	all := "/api/v1/namespaces/" + in + "/pods"
	if err := n.API().Create(t.Context(), all, o); err != nil {
		t.Fatal(err)
	}
	p := &pod{n: n, namespace: in, name: name, path: all + "/" + name, logs: map[string]*journal{}}
	uid := p.status(t).Metadata.UID
	for _, c := range containers {
		p.logs[c] = follow(t, filepath.Join(n.PodLogs(), in+"_"+name+"_"+uid, c))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("pod %s: %s", name, p.describe(t))
		}
		p.remove(t)
	})
	return p
}

func (p *pod) status(t *testing.T) podStatus {
	t.Helper()
	s, err := p.look(t)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *pod) look(t *testing.T) (podStatus, error) {
	t.Helper()
	var s podStatus
	err := p.n.API().Get(context.WithoutCancel(t.Context()), p.path, &s) // also asked when the test is over
	return s, err
}

// ready waits until the pod is.
func (p *pod) ready(t *testing.T) podStatus {
	t.Helper()
	var s podStatus
	testkit.Try(t, "pod "+p.name+" is ready", func() error {
		if s = p.status(t); !s.ready() {
			return errors.New(p.describe(t))
		}
		return nil
	})
	return s
}

// remove deletes the pod and waits until it has gone, in its own time.
func (p *pod) remove(t *testing.T) {
	t.Helper()
	if err := p.n.API().Delete(context.WithoutCancel(t.Context()), p.path); err != nil && !isGone(err) {
		t.Errorf("delete pod %s: %v", p.name, err)
		return
	}
	testkit.Try(t, "pod "+p.name+" has gone", p.gone(t))
}

func (p *pod) gone(t *testing.T) func() error {
	t.Helper()
	return func() error {
		_, err := p.look(t)
		if isGone(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	}
}

func isGone(err error) bool {
	var status *node.StatusError
	return errors.As(err, &status) && status.Code == 404
}

// describe says in words what is the matter with a pod.
func (p *pod) describe(t *testing.T) string {
	t.Helper()
	s, err := p.look(t)
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(s.Status)
	if err != nil {
		return err.Error()
	}
	out := string(text)
	for reason, message := range p.events(t) {
		out += fmt.Sprintf("\n  %s: %s", reason, message)
	}
	for name, log := range p.logs {
		out += "\n  log of " + name + ": " + log.tail()
	}
	return out
}

// events are the kubelet's words about a pod, by their reasons.
func (p *pod) events(t *testing.T) map[string]string {
	t.Helper()
	var events struct {
		Items []struct {
			Reason, Message string
			InvolvedObject  struct{ Name string }
		}
	}
	if err := p.n.API().Get(context.WithoutCancel(t.Context()), "/api/v1/namespaces/"+p.namespace+"/events", &events); err != nil {
		t.Error(err)
	}
	out := map[string]string{}
	for _, e := range events.Items {
		if e.InvolvedObject.Name == p.name {
			out[e.Reason] = e.Message
		}
	}
	return out
}

// pid returns the process of a container.
func (p *pod) pid(t *testing.T, container string) int {
	t.Helper()
	id := p.status(t).container(container).ContainerID
	_, id, _ = strings.Cut(id, "://")
	pid, err := node.Process(id)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// entry is a line that a container wrote: JSON in a line of the kubelet's.
type entry struct {
	At     time.Time
	Fields map[string]any
}

func (e entry) text(key string) string {
	s, _ := e.Fields[key].(string)
	return s
}

// journal is what a container wrote, over its restarts. It holds the files open,
// because the kubelet removes them soon after the pod.
type journal struct {
	mu      sync.Mutex
	entries []entry
	lines   []string
}

// follow reads the logs in a folder, the next restart's file after the other,
// until the test ends.
func follow(t *testing.T, folder string) *journal {
	t.Helper()
	j := &journal{}
	done := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for restart := 0; ; restart++ {
			file := awaitFile(filepath.Join(folder, fmt.Sprintf("%d.log", restart)), done)
			if file == nil {
				return
			}
			next := filepath.Join(folder, fmt.Sprintf("%d.log", restart+1))
			ended := j.read(file, next, done)
			_ = file.Close()
			if ended {
				return
			}
		}
	})
	t.Cleanup(func() { close(done); reading.Wait() })
	return j
}

func awaitFile(path string, done chan struct{}) *os.File {
	for {
		if file, err := os.Open(path); err == nil {
			return file
		}
		select {
		case <-done:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// read reads a file that grows, until the next one is there or the test ends.
func (j *journal) read(file *os.File, next string, done chan struct{}) (ended bool) {
	r := bufio.NewReader(file)
	var partial string
	last := false
	for {
		text, err := r.ReadString('\n')
		partial += text
		if err == nil {
			j.add(strings.TrimSuffix(partial, "\n"))
			partial = ""
			continue
		}
		if last {
			return ended
		}
		select {
		case <-done:
			last, ended = true, true // once more to the end
		case <-time.After(20 * time.Millisecond):
			if _, err := os.Stat(next); err == nil {
				last = true
			}
		}
	}
}

// add takes a line of the form "time stream F text".
func (j *journal) add(line string) {
	parts := strings.SplitN(line, " ", 4)
	if len(parts) != 4 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, parts[3])
	e := entry{}
	if at, err := time.Parse(time.RFC3339Nano, parts[0]); err == nil && json.Unmarshal([]byte(parts[3]), &e.Fields) == nil {
		e.At = at
		j.entries = append(j.entries, e)
	}
}

func (j *journal) all() []entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]entry(nil), j.entries...)
}

// find returns the first entry in which a field has a value.
func (j *journal) find(key, value string) (entry, error) {
	for _, e := range j.all() {
		if e.text(key) == value {
			return e, nil
		}
	}
	return entry{}, fmt.Errorf("no entry has %s %q: %s", key, value, j.tail())
}

func (j *journal) tail() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines[max(0, len(j.lines)-15):], "\n    ")
}
