// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/path"
)

// options say what is measured, and for how long.
type options struct {
	quick, write, check bool
	binary              string // "" builds one
	starts              int
	idle                time.Duration
	rounds              int
	contract            bool
	warmup, window      time.Duration
	callers             []int
	paths               []*path.Path
	size                string
}

// payloads are the bytes of Echo's payload by the name of the size; as JSON the arguments are about 170 bytes, 4.2 KB
// and 256 KB: an id and a few fields, a page of text, a document.
func payloads() map[string]int {
	return map[string]int{"small": 36, "medium": 3_050, "large": 196_000}
}

var errUsage = errors.New("usage")

// parseOptions reads the command line. What is wrong with it has been written to stderr when it returns errUsage.
func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	var callers, paths string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.quick, "quick", false, "short windows and few rounds, for a look and for CI: about a minute")
	flags.BoolVar(&o.write, "write", false, "write the figures into bench/README.md")
	flags.BoolVar(&o.check, "check", false, "exit with 1 where a limit of the footprint is missed")
	flags.StringVar(&o.binary, "sidecar", "", "measure this `binary` instead of building one")
	flags.IntVar(&o.starts, "starts", 11, "how often to start the sidecar for the time to readiness")
	flags.DurationVar(&o.idle, "idle", 22*time.Second, "how long the sidecar idles each time before its memory is read")
	flags.BoolVar(&o.contract, "contract", true, "measure what the canonical contract has targets for")
	flags.IntVar(&o.rounds, "rounds", 5, "how many rounds; 0 measures the footprint only")
	flags.DurationVar(&o.warmup, "warmup", 200*time.Millisecond, "time between every caller's first response and the window")
	flags.DurationVar(&o.window, "window", 1100*time.Millisecond, "time in which calls count, for each path, number of callers and round")
	flags.StringVar(&callers, "callers", "1,50,256", "`numbers` of callers")
	flags.StringVar(&paths, "paths", "", "only these `paths`, by name; default all: "+strings.Join(pathNames(path.All()), ","))
	flags.StringVar(&o.size, "size", "small", "the payload: small, medium or large")
	if err := flags.Parse(args); err != nil {
		return nil, errors.Join(errUsage, err)
	}
	if o.quick {
		given := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		o.shorten(given)
	}
	var err error
	if o.callers, err = parseCallers(callers); err == nil {
		o.paths, err = selectPaths(paths)
	}
	if err == nil {
		err = o.validate(flags.Args())
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return nil, errors.Join(errUsage, err)
	}
	return o, nil
}

// shorten sets the times of -quick where the command line does not say otherwise.
func (o *options) shorten(given map[string]bool) {
	set := func(name string, apply func()) {
		if !given[name] {
			apply()
		}
	}
	set("starts", func() { o.starts = 5 })
	set("rounds", func() { o.rounds = 3 })
	set("warmup", func() { o.warmup = 50 * time.Millisecond })
	set("window", func() { o.window = 200 * time.Millisecond })
}

func (o *options) validate(rest []string) error {
	var errs []error
	refuse := func(is bool, why string) {
		if is {
			errs = append(errs, errors.New(why))
		}
	}
	refuse(len(rest) > 0, "what is "+strings.Join(rest, " ")+"? there are only flags")
	refuse(o.starts < 1, "-starts: want at least 1")
	refuse(o.rounds < 0, "-rounds: want at least 0")
	refuse(o.window <= 0 || o.warmup < 0 || o.idle < 0, "-window, -warmup, -idle: want times that pass")
	_, known := payloads()[o.size]
	refuse(!known, "-size: want small, medium or large")
	return errors.Join(errs...)
}

// planned is about how long all windows take, connections included.
func (o *options) planned() time.Duration {
	cells := o.rounds * len(o.callers) * len(o.paths)
	return time.Duration(cells)*(o.window+o.warmup+50*time.Millisecond) + time.Duration(o.starts)*time.Second + o.idle + 2*warmRest
}

// mostCallers is how many connections a machine's usual limit of open files admits.
const mostCallers = 4096

func parseCallers(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > mostCallers {
			return nil, fmt.Errorf("-callers: %q: want numbers from 1 to %d", part, mostCallers)
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// selectPaths keeps the order of the tables.
func selectPaths(names string) ([]*path.Path, error) {
	all := path.All()
	if names == "" {
		return all, nil
	}
	wanted := strings.Split(names, ",")
	for _, name := range wanted {
		if !slices.Contains(pathNames(all), name) {
			return nil, fmt.Errorf("-paths: %q: want some of %s", name, strings.Join(pathNames(all), ","))
		}
	}
	return slices.DeleteFunc(all, func(p *path.Path) bool { return !slices.Contains(wanted, p.Name) }), nil
}

func pathNames(paths []*path.Path) []string {
	var names []string
	for _, p := range paths {
		names = append(names, p.Name)
	}
	return names
}
