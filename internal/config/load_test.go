// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/testing/protocmp"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
)

var update = flag.Bool("update", false, "rewrite goldens and docs/configuration.md")

// load runs Load as a command would: args are the command line, yaml the file
// ("" for none), environ the environment.
func load(t testing.TB, kind config.Kind, yaml string, environ, args []string, checks ...config.Check) (*config.Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.RegisterFlags(flags, kind)
	if yaml != "" {
		name := filepath.Join(t.TempDir(), "sidecar.yaml")
		if err := os.WriteFile(name, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", name}, args...)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return config.Load(kind, flags, environ, config.Options{Checks: checks})
}

// faults renders what is wrong, with the file's folder cut off.
func faults(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *config.Error
	if !errors.As(err, &e) {
		t.Fatalf("%T is not an *Error: %v", err, err)
	}
	for i := range e.Faults {
		if e.Faults[i].Line > 0 {
			e.Faults[i].Source = filepath.Base(e.Faults[i].Source)
		}
	}
	return e.Error()
}

// A path may have bytes that are not UTF-8, and its other faults are shown all the same.
func TestPathsAreBytes(t *testing.T) {
	t.Parallel()
	const path = "/tmp/a\xffb"
	c, err := load(t, config.Serve, "", nil, []string{"--demo", "--audit", path})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.GetAudit().GetPath(); got != path {
		t.Errorf("got %q", got)
	}
	_, err = load(t, config.Serve, "", nil, []string{"--demo", "--audit", path, "--max-in-flight", "-1"})
	if got := faults(t, err); !strings.Contains(got, "max-in-flight") {
		t.Errorf("got %s", got)
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	const file = `
demo: true
timeout: 1s
limits:
  max_message_bytes: 1MiB
  max_json_depth: 10
catalog:
  include: [file.One, file.Two]
  exclude: [file.Three]
`
	environ := []string{
		"OUTRIGGER_TIMEOUT=2s", "OUTRIGGER_MAX_MESSAGE_BYTES=2MiB", "OUTRIGGER_INCLUDE=env.One, env.Two,", "OUTRIGGER_TRUST=",
		"OTHER_TIMEOUT=9s", "OUTRIGGER_TIMEOUT_NOT_AN_ASSIGNMENT",
	}
	args := []string{"--timeout", "9s", "--timeout", "1m30s", "--include", "flag.One,flag.Two", "--include=flag.Three"}

	cfg, err := load(t, config.Serve, file, environ, args)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Defaults(config.Serve)
	want.Demo = true
	want.Timeout.Seconds = 90                                                 // flag, its last
	want.Limits.MaxMessageBytes = new(int64(2 << 20))                         // environment
	want.Limits.MaxJsonDepth = new(int32(10))                                 // file
	want.Catalog.Include = []string{"flag.One", "flag.Two", "flag.Three"}     // flags, all
	want.Catalog.Exclude = []string{"file.Three"}                             // file
	if diff := cmp.Diff(want, cfg.Config, protocmp.Transform()); diff != "" { // everything else: default
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(cfg.Warnings) > 0 {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
}

func TestAFlagCanEmptyAList(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, config.Serve, "demo: true\ncatalog: {exclude: [a.B]}\n", nil, []string{"--exclude="})
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.GetCatalog().GetExclude(); len(got) != 0 {
		t.Errorf("exclude is %v", got)
	}
}

func TestSwitches(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, config.Serve, "", []string{"OUTRIGGER_INSECURE_NO_AUTH=1"}, []string{"--demo", "--deterministic=false"})
	if err != nil {
		t.Fatal(err)
	}
	if !cfg.GetDemo() || cfg.GetDeterministic() || !cfg.GetListeners().GetInsecureNoAuth() {
		t.Errorf("demo %v, deterministic %v, insecure %v", cfg.GetDemo(), cfg.GetDeterministic(), cfg.GetListeners().GetInsecureNoAuth())
	}
}

func TestTheFileMayBeNamedInTheEnvironment(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(name, []byte("demo: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := load(t, config.Once, "", []string{"OUTRIGGER_CONFIG=" + name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.File != name || !cfg.GetDemo() {
		t.Errorf("file %q, demo %v", cfg.File, cfg.GetDemo())
	}
}

// TestTenFaults is the row "configuration with ten faults" of what bad input
// gets: ten messages, each with path and line.
func TestTenFaults(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("testdata/ten_faults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = load(t, config.Serve, string(source), []string{"OUTRIGGER_MAX_BATCH=many"}, []string{"--max-depth", "2"})
	got := faults(t, err) + "\n"
	const golden = "testdata/ten_faults.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := strings.Count(got, "sidecar.yaml:"); n != 10 {
		t.Errorf("%d faults of the file, want 10", n)
	}
}

func TestFaultsAreSortedAndBounded(t *testing.T) {
	t.Parallel()
	yaml := strings.Repeat("nonsense: 1\n", 1) + "limits:\n"
	for i := range 150 {
		yaml += "  zzzzzzzzzzzz" + strings.Repeat("q", i+1) + ": 1\n"
	}
	_, err := load(t, config.Serve, yaml, nil, []string{"--demo", "--max-batch=x"})
	var e *config.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if len(e.Faults) != 100 || e.Omitted != 52 || !strings.HasSuffix(e.Error(), "\nand 52 more") {
		t.Errorf("%d faults, %d omitted", len(e.Faults), e.Omitted)
	}
	for i, f := range e.Faults[1:] {
		if f.Line <= e.Faults[i].Line {
			t.Fatalf("line %d after line %d", f.Line, e.Faults[i].Line)
		}
	}
}

func TestChecksOfOthersKnowWhereAValueIsFrom(t *testing.T) {
	t.Parallel()
	check := func(cfg *configv1.Config, report func(path, message string)) {
		for i := range cfg.GetBackend().GetMetadata().GetInbound() {
			report("backend.metadata.inbound["+string(rune('0'+i))+"]", "is not to my taste")
		}
		report("trust", "is a default")
	}
	const file = "demo: true\nbackend:\n  metadata:\n    inbound:\n      - x-a\n      - x-b\n"
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"file", nil, "sidecar.yaml:5:9: backend.metadata.inbound[0]: is not to my taste\n" +
			"sidecar.yaml:6:9: backend.metadata.inbound[1]: is not to my taste\ntrust: is a default"},
		{"a flag that replaces the file's", []string{"--metadata-in", "x-c"}, "--metadata-in: is not to my taste\ntrust: is a default"},
		{"silent about what is known to be wrong", []string{"--metadata-in", "Bad Name", "--trust=x"},
			"--metadata-in: " + `does not match regex pattern ` + "`^[a-z0-9_.-]+[*]?$`" + `, is "Bad Name"` +
				"\n--trust: must be one of untrusted, trusted, is \"x\""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, config.Serve, file, nil, tt.args, check)
			if diff := cmp.Diff(tt.want, faults(t, err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMisspeltVariablesAreWarnings(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, config.Serve, "", []string{
		"OUTRIGGER_DEMO=true", "OUTRIGGER_MAX_DEPHT=3", "OUTRIGGER_SOMETHING_ELSE=1",
		// What Kubernetes sets for a Service that is named outrigger.
		"OUTRIGGER_SERVICE_HOST=10.0.0.1", "OUTRIGGER_SERVICE_PORT=80", "OUTRIGGER_SERVICE_PORT_HTTP=80",
		"OUTRIGGER_PORT=tcp://10.0.0.1:80", "OUTRIGGER_PORT_80_TCP=tcp://10.0.0.1:80", "OUTRIGGER_PORT_80_TCP_ADDR=10.0.0.1",
	}, []string{"--repair-arguments", "--schema-profile", "strict", "--validate", "full"})
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Fault{
		{Source: "OUTRIGGER_MAX_DEPHT", Message: "unknown variable; did you mean OUTRIGGER_MAX_DEPTH?"},
		{Source: "OUTRIGGER_SOMETHING_ELSE", Message: "unknown variable"},
	}
	if diff := cmp.Diff(want, cfg.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestARemovedVariableIsAFault: what it asked for does not happen any more.
func TestARemovedVariableIsAFault(t *testing.T) {
	t.Parallel()
	_, err := load(t, config.Serve, "", []string{"OUTRIGGER_DEMO=true", "OUTRIGGER_SESSION_IDLE=5m"}, nil)
	if err == nil || !strings.Contains(err.Error(), "OUTRIGGER_SESSION_IDLE: removed: ") {
		t.Errorf("%v", err)
	}
}

func TestRecordsGoToTheStateDirectory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		environ []string
		args    []string
		want    string
		warned  bool
	}{
		{name: "XDG", environ: []string{"HOME=/home/ann", "XDG_STATE_HOME=/state"}, want: "/state/outrigger/runs"},
		{name: "home", environ: []string{"HOME=/home/ann", "XDG_STATE_HOME="}, want: "/home/ann/.local/state/outrigger/runs"},
		{name: "relative paths do not count", environ: []string{"HOME=/home/ann", "XDG_STATE_HOME=state"}, want: "/home/ann/.local/state/outrigger/runs"},
		{name: "neither", environ: []string{"HOME="}, want: "off", warned: true},
		{name: "given", environ: []string{"HOME=/home/ann"}, args: []string{"--record-dir", "runs"}, want: "runs"},
	} {
		cfg, err := load(t, config.Serve, "", tt.environ, append([]string{"--demo"}, tt.args...))
		if err != nil {
			t.Fatal(err)
		}
		cfg.ResolveRecords(tt.environ)
		if got := cfg.GetRecord().GetDir(); got != tt.want || len(cfg.Warnings) > 0 != tt.warned {
			t.Errorf("%s: record.dir is %q, want %q; warnings: %v", tt.name, got, tt.want, cfg.Warnings)
		}
	}
}
