// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/deploy/node"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// What is measured of a sidecar.
const (
	restTime   = 10 * time.Second // the kubelet's probes go on meanwhile
	workTime   = 10 * time.Second
	workRate   = 100 // calls a second
	mediumSize = 300 // tools of the medium catalog
)

// figure is what one sidecar costs.
type figure struct {
	catalog string
	tools   int
	// ready is the time from the start of the process until it listens, and tools until they are there.
	listening, loaded time.Duration
	idle, busy        usage
	median, p99       time.Duration
	calls             int
}

// usage is what a container uses.
type usage struct {
	// rss is the process's resident memory, held what its cgroup holds.
	rss, held int64
	// millicores is the CPU time per time.
	millicores float64
}

// testFigures measures a sidecar in its pod, with a small and a medium catalog at rest, and with a steady rate of calls over all edges
// with the small one.
func testFigures(t *testing.T, n *node.Node, r *result) {
	for _, tc := range []struct {
		catalog, example string
		set              []byte
	}{{"small", "minimal", nil}, {"medium", "descriptors", mediumSet(t)}} {
		t.Run(tc.catalog, func(t *testing.T) {
			f := figure{catalog: tc.catalog}
			p := run(t, n, tc.example, "figures-"+tc.catalog, func(pod object) {
				if tc.set != nil {
					useDescriptors(t, n, pod, tc.set)
				}
			})
			ip := p.ready(t).Status.PodIP
			pid := p.pid(t, "sidecar")
			f.starts(t, p, pid)
			f.idle = measure(t, pid, func() { time.Sleep(restTime) })
			if tc.set == nil { // the app has none of the other tools
				f.busy = measure(t, pid, func() { f.work(t, ip) })
			}
			t.Logf("%+v", f)
			r.figures = append(r.figures, f)
		})
	}
}

// mediumSet is a descriptor set with as many methods as a service of medium size has.
func mediumSet(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../internal/demo/demo.binpb")
	if err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(text, set); err != nil {
		t.Fatal(err)
	}
	const services = 20
	file := &descriptorpb.FileDescriptorProto{Name: new("medium/v1/medium.proto"), Package: new("medium.v1"), Syntax: new("proto3")}
	message := func(name string) {
		m := &descriptorpb.DescriptorProto{Name: &name}
		for i := range int32(8) {
			kind := []descriptorpb.FieldDescriptorProto_Type{descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_INT64}[i%2]
			m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
				Name: new(fmt.Sprintf("field_%d", i)), Number: new(i + 1), Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			})
		}
		file.MessageType = append(file.MessageType, m)
	}
	for i := range services {
		service := &descriptorpb.ServiceDescriptorProto{Name: new(fmt.Sprintf("Service%d", i))}
		for j := range mediumSize / services {
			name := fmt.Sprintf("Method%dOf%d", j, i)
			message(name + "Request")
			message(name + "Response")
			service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
				Name: &name, InputType: new(".medium.v1." + name + "Request"), OutputType: new(".medium.v1." + name + "Response"),
			})
		}
		file.Service = append(file.Service, service)
	}
	set.File = append(set.File, file)
	out, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// useDescriptors gives a pod of the example descriptors another set.
func useDescriptors(t *testing.T, n *node.Node, pod object, set []byte) {
	t.Helper()
	const name = "medium-descriptors"
	apply(t, n, object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": namespace},
		"binaryData": map[string]any{"api.binpb": base64.StdEncoding.EncodeToString(set)},
	}, false)
	for _, volume := range pod.at("spec", "volumes").([]any) {
		if from, ok := volume.(map[string]any)["configMap"].(map[string]any); ok {
			from["name"] = name
			return
		}
	}
	t.Fatal("the example has no volume of descriptors")
}

// starts reads when the sidecar listened and had its tools, from the start of its process. The app starts after the first.
func (f *figure) starts(t *testing.T, p *pod, pid int) {
	t.Helper()
	began := started(t, pid)
	listening, ready := awaitEntry(t, p.logs["sidecar"], "msg", "listening"), awaitEntry(t, p.logs["sidecar"], "msg", "ready")
	app := awaitEntry(t, p.logs["fleet"], "event", "listening")
	from := began
	if app.At.After(began) && ready.At.After(app.At) {
		from = app.At // what it waited for
	}
	tools, ok := ready.Fields["tools"].(float64)
	if !ok {
		t.Fatalf("the log says of the tools: %v", ready.Fields)
	}
	f.listening, f.loaded, f.tools = listening.At.Sub(began), ready.At.Sub(from), int(tools)
}

// started is when a process started, to 10 ms.
func started(t *testing.T, pid int) time.Time {
	t.Helper()
	const ticks = 100 // in a second: USER_HZ
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	_, behind, _ := strings.Cut(string(stat), ") ") // the name in front may have spaces
	after, err := strconv.ParseInt(strings.Fields(behind)[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	up, err := strconv.ParseFloat(strings.Fields(string(uptime))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return now.Add(-time.Duration((up - float64(after)/ticks) * float64(time.Second)))
}

// measure returns what a container uses while something is done: the CPU time over all of it, and the most memory.
func measure(t *testing.T, pid int, do func()) usage {
	t.Helper()
	before, err := node.CPU(pid)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	var u usage
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-time.After(100 * time.Millisecond):
		}
		held, err := node.CgroupFile(pid, "memory.usage_in_bytes", "memory.current")
		if err != nil {
			t.Fatal(err)
		}
		bytes, err := strconv.ParseInt(held, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		u.rss, u.held = max(u.rss, rss(t, pid)), max(u.held, bytes)
	}
	took := time.Since(begin)
	after, err := node.CPU(pid)
	if err != nil {
		t.Fatal(err)
	}
	u.millicores = 1000 * float64(after-before) / float64(took)
	return u
}

// work makes calls at a steady rate, over all edges in turn.
func (f *figure) work(t *testing.T, ip string) {
	ctx, stop := context.WithTimeout(t.Context(), workTime)
	defer stop()
	all := edges()
	dialled := make([]func(context.Context, string, time.Duration) attempt, len(all))
	for i, e := range all {
		dialled[i] = e.dial(ip + ":8080")
	}
	tick := time.NewTicker(time.Second / workRate)
	defer tick.Stop()
	var calls sync.WaitGroup
	var mu sync.Mutex
	var times []time.Duration
	for i := 0; ctx.Err() == nil; i++ {
		<-tick.C
		calls.Go(func() {
			nonce, begin := fmt.Sprintf("w%d", i), time.Now()
			got := dialled[i%len(all)](t.Context(), nonce, 0)
			took := time.Since(begin)
			if got.outcome != answered || got.nonce != nonce {
				t.Errorf("%s: %+v", all[i%len(all)].name, got)
			}
			mu.Lock()
			times = append(times, took)
			mu.Unlock()
		})
	}
	calls.Wait()
	slices.Sort(times)
	f.calls, f.median, f.p99 = len(times), times[len(times)/2], times[len(times)*99/100]
}

// writeFigures writes the table of what a sidecar costs.
func (r *result) writeFigures(t *testing.T, b *strings.Builder) {
	t.Helper()
	fmt.Fprintf(b, "\n## What a sidecar costs\n\nMeasured in its pod, on %s. Memory is the process's resident set and, in brackets, what its cgroup holds; CPU is the cgroup's time, probes\n"+
		"included; 1000m is one core. Start is from the process's start until it listens, which the app waits for; tools are there after the further time, counted from when\nthe app listens where they come from reflection.\n\n", machine(t))
	fmt.Fprintf(b, "| catalog | start | tools | idle: memory | idle: CPU | %d calls/s over 4 edges: memory | CPU | median, p99 of a call |\n|---|---|---|---|---|---|---|---|\n", workRate)
	for _, f := range r.figures {
		fmt.Fprintf(b, "| %s, %d tools | %v | %v | %s (%s) | %.1fm | ", f.catalog, f.tools, f.listening.Round(time.Millisecond), f.loaded.Round(time.Millisecond), mib(f.idle.rss), mib(f.idle.held), f.idle.millicores)
		if f.calls == 0 {
			b.WriteString("not measured | | |\n")
			continue
		}
		fmt.Fprintf(b, "%s (%s) | %.0fm | %v, %v |\n", mib(f.busy.rss), mib(f.busy.held), f.busy.millicores, f.median.Round(10*time.Microsecond), f.p99.Round(10*time.Microsecond))
	}
}

// machine says what the figures were measured on.
func machine(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	model := runtime.GOARCH
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%d cores of %s, which the node and the callers share", runtime.NumCPU(), model)
}

// awaitEntry waits for what a log has to say.
func awaitEntry(t *testing.T, j *journal, key, value string) entry {
	t.Helper()
	var found entry
	testkit.Try(t, "an entry with "+key+" "+value, func() (err error) {
		found, err = j.find(key, value)
		return err
	})
	return found
}
