// SPDX-License-Identifier: Apache-2.0

package programs_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	_ "cloud.google.com/go/container/apiv1/containerpb"
	_ "cloud.google.com/go/logging/apiv2/loggingpb"
	_ "cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	_ "cloud.google.com/go/pubsub/apiv1/pubsubpb" //nolint:staticcheck // Its successor registers the same messages.
	_ "github.com/openfga/api/proto/openfga/v1"
	_ "go.etcd.io/etcd/api/v3/etcdserverpb"
	_ "go.temporal.io/api/workflowservice/v1"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
)

var update = flag.Bool("update", false, "write docs/programs-figures.md")

// latency is that of each backend.
const latency = 20 * time.Millisecond

// apis are the packages of the catalogs that are public APIs.
func apis() map[string][]string {
	return map[string][]string{
		"openfga":    {"openfga.v1"},
		"etcd":       {"etcdserverpb"},
		"temporal":   {"temporal.api.workflowservice.v1"},
		"googleapis": {"google.pubsub.v1", "google.logging.v2", "google.monitoring.v3", "google.container.v1"},
	}
}

// tokens estimates what a text costs a model, as the sidecar does for lists.
func tokens(text string) int {
	return (len(text) + listcost.BytesPerToken - 1) / listcost.BytesPerToken
}

// world is a catalog in front of its backend, which is slow.
type world struct {
	client
	// tools is how many tools a full list has.
	tools int
	// full and compact are the tokens of the lists.
	full, compact int
}

func worldOf(t *testing.T, api string) *world {
	t.Helper()
	descriptors := filepath.Join("..", "..", "..", "internal", "demo", "demo.binpb")
	backend := []string{"--demo"}
	if packages, ok := apis()[api]; ok {
		set, _, err := sources.Registered(packages...)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		descriptors = filepath.Join(t.TempDir(), api+".binpb")
		if err := os.WriteFile(descriptors, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		backend = []string{"--mock", "--mock-seed", "39", "--descriptors", descriptors}
	}
	front := []string{"--backend", "grpc://" + delayed(t, serve(t, backend...), latency), "--descriptors", descriptors, "--native", "off"}
	w := &world{}
	var list string
	w.tools, list = client{serve(t, append(front, "--catalog-mode", "full")...)}.list(t)
	w.full = tokens(list)
	w.client = client{serve(t, append(front, "--catalog-mode", "compact")...)}
	_, list = w.list(t)
	w.compact = tokens(list)
	return w
}

// way is one way of doing a task: what its turns add to the context of a model, where all calls of a step are one turn.
type way struct {
	turns []int
	took  time.Duration
	// calls are the turns where each call is one, without the list and what was learned of tools.
	calls []int
}

// once is what comes into the context, and read what the model reads in all turns, each of which has all before it.
func (w way) once() (sum int) {
	for _, n := range w.turns {
		sum += n
	}
	return sum
}

func (w way) read() (sum int) {
	for i, n := range w.turns {
		sum += n * (len(w.turns) - i)
	}
	return sum
}

// slowly is the way in which each call is a turn; it adds to known, what came before.
func (w way) slowly(known []int) way { return way{turns: slices.Concat(known, w.calls)} }

// measured is a task with its ways.
type measured struct {
	task
	calls                   int
	full, compact, programs way
	// learned is the compact list with searches and descriptions, which its single calls need, and signed the same with the signatures
	// that the program needs.
	learned, signed []int
	// talk is what requests and answers of single calls have, and of the program, without descriptions.
	talk, run int
}

// measure does a task in all ways. Times are medians of rounds.
func measure(t *testing.T, w *world, one task, rounds int) measured {
	t.Helper()
	m := measured{task: one}
	m.full.turns = []int{w.full}
	searches, descriptions, signatures := w.learn(t, one)
	m.learned, m.signed = []int{w.compact, searches, descriptions}, []int{w.compact, searches, signatures}
	m.compact.turns, m.programs.turns = slices.Clone(m.learned), slices.Clone(m.signed)
	var singles, programs []time.Duration
	for round := range rounds {
		start := time.Now()
		did := w.singly(t, one)
		singles = append(singles, time.Since(start))
		start = time.Now()
		request, answer, isError := w.call(t, "catalog_run", map[string]any{"program": one.program})
		programs = append(programs, time.Since(start))
		if isError {
			t.Errorf("%s: %s\n%s", one.ask, answer, one.program)
			break
		}
		if round > 0 {
			continue
		}
		same(t, one, did, answer)
		m.calls = len(did.tools)
		m.full.turns, m.compact.turns = append(m.full.turns, did.turns...), append(m.compact.turns, did.wrapped...)
		m.full.calls, m.compact.calls = did.calls, did.wrappedCalls
		m.run = tokens(request) + tokens(answer)
		m.programs.turns = append(m.programs.turns, m.run)
		for _, n := range did.turns {
			m.talk += n
		}
	}
	m.full.took, m.programs.took = median(singles), median(programs)
	m.compact.took = m.full.took
	return m
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// learn searches and describes the tools of a task, as an agent does that has a compact list: one turn for all searches, one for
// all descriptions, and another search where the first did not find the tool. For a program it has one description with all signatures.
func (w *world) learn(t *testing.T, one task) (searches, descriptions, signatures int) {
	t.Helper()
	seen, names := map[string]bool{}, []string{}
	for _, s := range one.steps {
		if seen[s.tool] {
			continue
		}
		seen[s.tool], names = true, append(names, s.tool)
		for _, query := range []string{s.find, strings.ReplaceAll(s.tool, "_", " ")} {
			request, answer, _ := w.call(t, "catalog_search", map[string]any{"query": query})
			searches += tokens(request) + tokens(answer)
			if strings.Contains(answer, `"`+s.tool+`"`) {
				break
			}
		}
		request, answer, isError := w.call(t, "catalog_describe", map[string]any{"name": s.tool})
		if isError {
			t.Fatalf("%s: %s", s.tool, answer)
		}
		descriptions += tokens(request) + tokens(answer)
	}
	request, answer, isError := w.call(t, "catalog_describe", map[string]any{"names": names})
	if isError {
		t.Fatalf("%v: %s", names, answer)
	}
	return searches, descriptions, tokens(request) + tokens(answer)
}

// doing is what single calls of a task were.
type doing struct {
	// turns are the tokens of each step by name, and wrapped through catalog.call.
	turns, wrapped []int
	// calls and wrappedCalls are those of each call.
	calls, wrappedCalls []int
	tools               []string
}

// singly makes the calls of a task one after the other. All calls of a step are one turn of the model, which favours them: most
// agents make one in each turn.
func (w *world) singly(t *testing.T, one task) (did doing) {
	t.Helper()
	answers := map[string]any{}
	for i, s := range one.steps {
		elements := []any{nil}
		switch {
		case strings.HasPrefix(s.each, "["):
			decode(t, []byte(s.each), &elements)
		case s.each != "":
			elements = at(answers, strings.Split(s.each, "."))
		}
		byName, wrapped := 0, 0
		var here []any
		for _, element := range elements {
			var template any
			decode(t, []byte(s.arguments), &template)
			arguments := filled(template, element)
			request, answer, _ := w.call(t, s.tool, arguments)
			outer := encode(t, map[string]any{"name": "catalog_call", "arguments": map[string]any{"name": s.tool, "arguments": arguments}})
			did.calls, did.wrappedCalls = append(did.calls, tokens(request)+tokens(answer)), append(did.wrappedCalls, tokens(outer)+tokens(answer))
			byName += did.calls[len(did.calls)-1]
			wrapped += did.wrappedCalls[len(did.wrappedCalls)-1]
			did.tools = append(did.tools, s.tool)
			var value any
			decode(t, []byte(answer), &value)
			here = append(here, value)
		}
		answers[strconv.Itoa(i)] = here
		did.turns, did.wrapped = append(did.turns, byName), append(did.wrapped, wrapped)
	}
	return did
}

// at is what a path finds. Lists of answers need no "*".
func at(value any, path []string) []any {
	if len(path) == 0 {
		if value == nil {
			return nil
		}
		return []any{value}
	}
	switch v := value.(type) {
	case map[string]any:
		return at(v[path[0]], path[1:])
	case []any:
		rest := path
		if path[0] == "*" {
			rest = path[1:]
		}
		var out []any
		for _, one := range v {
			out = append(out, at(one, rest)...)
		}
		return out
	}
	return nil
}

// filled puts an element into a template of arguments.
func filled(template, element any) any {
	switch v := template.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, one := range v {
			out[key] = filled(one, element)
		}
		return out
	case []any:
		var out []any
		for _, one := range v {
			out = append(out, filled(one, element))
		}
		return out
	case string:
		members, ok := element.(map[string]any)
		text, isText := element.(string)
		switch {
		case v == "$":
			return element
		case ok && strings.HasPrefix(v, "$"):
			return members[v[1:]]
		case isText:
			return strings.ReplaceAll(v, "$", text)
		}
	}
	return template
}

// same compares which tools were called, and how often.
func same(t *testing.T, one task, did doing, answer string) {
	t.Helper()
	var ran struct {
		Ran []struct {
			Tool  string
			Calls int
		}
	}
	decode(t, []byte(answer), &ran)
	single, program := map[string]int{}, map[string]int{}
	for _, tool := range did.tools {
		single[tool]++
	}
	for _, r := range ran.Ran {
		program[strings.ReplaceAll(r.Tool, ".", "_")] += r.Calls
	}
	if !maps.Equal(single, program) {
		t.Errorf("%s: the program calls %v, single calls are %v", one.ask, program, single)
	}
}

// TestFigures does all tasks, or in the short form the first of each catalog, and with -update writes the page.
func TestFigures(t *testing.T) {
	worlds, rows := map[string]*world{}, []measured{}
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	for _, one := range tasks() {
		w := worlds[one.api]
		if w == nil {
			w = worldOf(t, one.api)
			worlds[one.api] = w
		} else if testing.Short() {
			continue
		}
		m := measure(t, w, one, rounds)
		t.Logf("%s: %s: %d calls; tokens %d full, %d compact, %d program (list, searches, signatures, run: %v); %v, %v", m.api, m.ask, m.calls, m.full.once(), m.compact.once(), m.programs.once(), m.programs.turns,
			m.full.took.Round(time.Millisecond), m.programs.took.Round(time.Millisecond))
		if m.run >= m.talk {
			t.Errorf("%s: the program has %d tokens, the single calls %d", m.ask, m.run, m.talk)
		}
		rows = append(rows, m)
	}
	if *update && !testing.Short() {
		write(t, worlds, rows)
	}
}
