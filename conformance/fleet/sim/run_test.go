// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/overlay"
)

var (
	seedFlag      = flag.Uint64("seed", 1, "the first seed")
	seedsFlag     = flag.Int("seeds", 20, "the number of seeds")
	stepsFlag     = flag.Int("steps", 0, "end a simulation after so many steps; 0 does not")
	withoutFlag   = flag.String("without", "", "the numbers of faults to leave out, separated by commas")
	traceFlag     = flag.Bool("trace", false, "print each step")
	processesFlag = flag.Int("processes", 2, "the number of processes")
	forFlag       = flag.Duration("for", 0, "go on with new seeds for so long, or until one fails")
	outFlag       = flag.String("out", "", "the folder for the schedules of failures")
	mutantsFlag   = flag.Bool("mutants", false, "show that mutations of the product are found")
	mutantFlag    = flag.String("mutant", "", "the mutation of the product to simulate")
)

// enoughSeeds is from how many seeds on a run must have reached all that is declared.
const enoughSeeds = 1000

// report is what a process tells of its simulations.
type report struct {
	Seeds, Steps int
	Sums         map[uint64]string
	Reached      map[string]int
	Failed       []result
}

func (r *report) add(other report) {
	r.Seeds += other.Seeds
	r.Steps += other.Steps
	r.Failed = append(r.Failed, other.Failed...)
	if r.Reached == nil {
		r.Reached, r.Sums = map[string]int{}, map[uint64]string{}
	}
	for name, n := range other.Reached {
		r.Reached[name] += n
	}
	maps.Copy(r.Sums, other.Sums)
}

// buildDir is where simulations are built.
var buildDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "outrigger-sim-") })

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if os.Getenv(reportPath) == "" {
		if dir, err := buildDir(); err == nil {
			_ = os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// exact builds the simulation as it is, or the mutant that was asked for.
var exact = sync.OnceValues(func() (string, error) {
	var edits []overlay.Edit
	for _, m := range mutants() {
		if m.name == *mutantFlag {
			edits = m.edits
		}
	}
	return buildMutant("sim.test", edits...)
})

// buildMutant builds the simulation with edits of the product.
func buildMutant(name string, edits ...overlay.Edit) (string, error) {
	dir, err := buildDir()
	if err != nil {
		return "", err
	}
	return overlay.Build(context.Background(), "..", "./sim", "../../..", dir, name, append(overlay.Runtime(), edits...))
}

func build(t *testing.T) string {
	t.Helper()
	path, err := exact()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// reportPath is the variable with the path of the report of a process of simulations.
const reportPath = "SIM_REPORT"

// child runs simulations in another process.
func child(t *testing.T, binary string, p plan, seeds int) (report, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.json")
	run := exec.CommandContext(t.Context(), binary, "-test.run=^TestChild$", "-test.timeout=0",
		"-seed="+strconv.FormatUint(p.seed, 10), "-seeds="+strconv.Itoa(seeds), "-steps="+strconv.Itoa(p.steps),
		"-without="+p.leftOut(), "-trace="+strconv.FormatBool(p.trace))
	run.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1", reportPath+"="+path)
	var said bytes.Buffer
	run.Stdout, run.Stderr = &said, &said
	err := run.Run()
	var out report
	text, unread := os.ReadFile(path)
	if unread == nil {
		unread = json.Unmarshal(text, &out)
	}
	if err != nil || unread != nil {
		t.Fatalf("a process of simulations failed: %v, %v\n%s", err, unread, tail(said.String()))
	}
	return out, said.String()
}

// tail is the end of a long text.
func tail(text string) string {
	const most = 8000
	return text[max(0, len(text)-most):]
}

func (p plan) leftOut() string {
	var out []string
	for _, n := range slices.Sorted(maps.Keys(p.without)) {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, ",")
}

// schedule is the line that repeats a simulation.
func (p plan) schedule() string {
	out := fmt.Sprintf("make sim SEED=%d", p.seed)
	if p.steps > 0 {
		out += fmt.Sprintf(" STEPS=%d", p.steps)
	}
	if len(p.without) > 0 {
		out += " WITHOUT=" + p.leftOut()
	}
	if *mutantFlag != "" {
		out += " MUTANT=" + *mutantFlag
	}
	return out
}

// planned is the plan of the flags.
func planned(t *testing.T) plan {
	t.Helper()
	p := plan{seed: *seedFlag, steps: *stepsFlag, trace: *traceFlag, without: map[int]bool{}}
	for _, text := range strings.FieldsFunc(*withoutFlag, func(c rune) bool { return c == ',' }) {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		p.without[n] = true
	}
	return p
}

// many runs seeds in several processes.
func many(t *testing.T, binary string, from uint64, seeds int) report {
	t.Helper()
	const atATime = 50 // so that the processes end together
	var mu sync.Mutex
	var all report
	next := 0
	var running sync.WaitGroup
	for range *processesFlag {
		running.Go(func() {
			for {
				mu.Lock()
				first := next
				next += atATime
				mu.Unlock()
				if first >= seeds {
					return
				}
				out, _ := child(t, binary, plan{seed: from + uint64(first)}, min(atATime, seeds-first))
				mu.Lock()
				all.add(out)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return all
}

// TestSeeds: simulations keep all properties, and reach all that is declared. With -for it goes on until one fails.
func TestSeeds(t *testing.T) {
	t.Parallel()
	binary := build(t)
	var all report
	began := time.Now()
	for from := *seedFlag; ; from += uint64(*seedsFlag) {
		all.add(many(t, binary, from, *seedsFlag))
		clear(all.Sums) // it may go on for days
		if len(all.Failed) > 0 || time.Since(began) >= *forFlag {
			break
		}
		t.Logf("%d seeds, %d steps, %v", all.Seeds, all.Steps, time.Since(began).Round(time.Second))
	}
	for _, one := range all.Failed {
		t.Errorf("seed %d: %s", one.Seed, strings.Join(one.Broken, "\n"))
	}
	if len(all.Failed) > 0 {
		keepSchedule(t, binary, all.Failed[0])
	}
	t.Logf("%d seeds, %d steps, %v", all.Seeds, all.Steps, time.Since(began).Round(time.Second))
	for _, name := range slices.Sorted(maps.Keys(all.Reached)) {
		t.Logf("%7d %s", all.Reached[name], name)
	}
	if all.Seeds >= enoughSeeds {
		for _, name := range declared() {
			if all.Reached[name] == 0 {
				t.Errorf("never reached in %d seeds: %s", all.Seeds, name)
			}
		}
	}
}

// keepSchedule looks for the shortest schedule that fails in the same way, and writes it down.
func keepSchedule(t *testing.T, binary string, failed result) {
	t.Helper()
	property := failed.property()
	fails := func(p plan) (result, bool) {
		out, _ := child(t, binary, p, 1)
		if len(out.Failed) == 0 {
			return result{}, false
		}
		return out.Failed[0], slices.ContainsFunc(out.Failed[0].Broken, func(s string) bool { return strings.HasPrefix(s, property) })
	}
	p, last := plan{seed: failed.Seed, without: map[int]bool{}}, failed
	for _, n := range failed.Faults { // each fault that it fails without
		p.without[n] = true
		if now, ok := fails(p); ok {
			last = now
		} else {
			delete(p.without, n)
		}
	}
	// A property that is watched at each step is broken at one of them.
	if at := last.At; at > 0 {
		short := p
		short.steps = at
		if _, ok := fails(short); ok {
			p = short
		}
	}
	p.trace = true
	_, trace := child(t, binary, p, 1)
	text := fmt.Sprintf("%s\n%s\n\n%s", p.schedule(), strings.Join(last.Broken, "\n"), trace)
	dir := *outFlag
	if dir == "" {
		dir = os.TempDir()
	}
	path := filepath.Join(dir, fmt.Sprintf("outrigger-sim-%d.txt", failed.Seed))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Error(err)
	}
	t.Logf("%s: %d faults left out, %d steps; the schedule is in %s", p.schedule(), len(p.without), last.Steps, path)
}

// property is the name of the first one that is broken.
func (r result) property() string {
	name, _, _ := strings.Cut(r.Broken[0], ":")
	return name + ":"
}

// TestReplay repeats one seed, and prints what happened.
func TestReplay(t *testing.T) {
	t.Parallel()
	p := planned(t)
	if *seedsFlag != 1 {
		t.Skip("-seeds=1 asks for it")
	}
	out, said := child(t, build(t), p, 1)
	t.Logf("%s\n%s", p.schedule(), said)
	if len(out.Failed) > 0 {
		t.Errorf("%s", strings.Join(out.Failed[0].Broken, "\n"))
	}
}

// TestReplaysAreExact: a seed is the same simulation in each process, byte for byte, whatever ran before it there.
func TestReplaysAreExact(t *testing.T) {
	t.Parallel()
	binary := build(t)
	const from, seeds = 100, 4
	together, _ := child(t, binary, plan{seed: from}, seeds)
	for i := range uint64(seeds) {
		alone, first := child(t, binary, plan{seed: from + i, trace: true}, 1)
		_, second := child(t, binary, plan{seed: from + i, trace: true}, 1)
		if alone.Sums[from+i] != together.Sums[from+i] || first != second {
			t.Errorf("seed %d differs: %s alone, %s after others", from+i, alone.Sums[from+i], together.Sums[from+i])
		}
		if len(first) < 10_000 {
			t.Errorf("seed %d has a trace of %d bytes", from+i, len(first))
		}
	}
}
