// SPDX-License-Identifier: Apache-2.0

package reconfigure_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/reconfigure"
)

const (
	echo   = "lab.echo"
	cancel = "fleet.cancel_order" // is destructive
)

// TestWhatAFileChanges has a row for each field that changes at run time, and for what
// does not: what came of it, what waits for a restart, and what callers meet.
func TestWhatAFileChanges(t *testing.T) {
	t.Parallel()
	const killing = "tools: [{method: outrigger.demo.v1.Fleet/PlaceOrder, tool: {name: fleet.kill_order}}]\n"
	for _, tt := range []struct {
		name, before, after string
		outcome             string
		waiting             []string
		// check looks at what is in use.
		check func(r *running) (got, want string)
	}{
		{"nothing but a comment", "", "# nothing\n", "unchanged", nil, func(r *running) (string, string) { return r.calls("ann", echo), "called" }},
		{"log.level", "", "log: {level: debug}\n", "applied", nil, func(r *running) (string, string) { return r.level.String(), "debug" }},
		{"trust", "", "trust: trusted\n", "applied", nil, func(r *running) (string, string) { return r.calls("ann", cancel), "called" }},
		{"trusted_callers", "", "trusted_callers: [10.1.0.1]\n", "applied", nil, func(r *running) (string, string) {
			return r.calls("10.1.0.1", cancel) + ", " + r.calls("10.1.0.2", cancel), "called, blocked"
		}},
		{"gate", "", "gate: writes\n", "applied", nil, func(r *running) (string, string) {
			return r.calls("ann", "fleet.place_order"), "blocked"
		}},
		{"a gate that goes by declarations", killing, killing + "gate: marked\n", "applied", nil, func(r *running) (string, string) {
			return r.calls("ann", "fleet.kill_order"), "called"
		}},
		{"a gate that goes by verbs again", killing + "gate: marked\n", killing, "applied", nil, func(r *running) (string, string) {
			return r.calls("ann", "fleet.kill_order"), "blocked"
		}},
		{"limits.tool_rate", "", "limits: {tool_rate: {per_second: 0.01, burst: 1}}\n", "applied", nil, func(r *running) (string, string) {
			return r.calls("ann", echo) + ", " + r.calls("bob", echo), "called, limited"
		}},
		{"limits.caller_rate", "", "limits: {caller_rate: {per_second: 0.01, burst: 1}}\n", "applied", nil, func(r *running) (string, string) {
			return r.calls("ann", echo) + ", " + r.calls("ann", "lab.sleep") + ", " + r.calls("bob", echo), "called, limited, called"
		}},
		{"a rate that goes", "limits: {tool_rate: {per_second: 0.01, burst: 1}}\n", "", "applied", nil, func(r *running) (string, string) {
			return r.calls("ann", echo) + ", " + r.calls("ann", echo), "called, called"
		}},
		{"catalog.exclude", "", "catalog: {exclude: ['outrigger.demo.v1.Lab/Echo']}\n", "applied", nil, func(r *running) (string, string) {
			return r.calls("ann", echo), "no tool"
		}},
		{"catalog.include", "", "catalog: {include: ['outrigger.demo.v1.Lab/*']}\n", "applied", nil, func(r *running) (string, string) {
			return r.calls("ann", echo) + ", " + r.calls("ann", "fleet.get_vehicle"), "called, no tool"
		}},
		{"tools", "", "tools: [{method: outrigger.demo.v1.Lab/Echo, tool: {name: lab.repeat}}]\n", "applied", nil, func(r *running) (string, string) {
			return r.calls("ann", echo) + ", " + r.calls("ann", "lab.repeat"), "no tool, called"
		}},
		{"listeners.listen", "", "listeners: {listen: '127.0.0.1:9'}\n", "refused", []string{"listeners.listen"}, func(r *running) (string, string) {
			return r.calls("ann", echo), "called"
		}},
		{"telemetry", "", "telemetry: {endpoint: 'http://127.0.0.1:4318', sampler_ratio: 0.5, max_metric_tools: 9, baggage: [tenant]}\n", "refused",
			[]string{"telemetry.endpoint", "telemetry.sampler_ratio", "telemetry.baggage", "telemetry.max_metric_tools"},
			func(r *running) (string, string) { return r.calls("ann", echo), "called" }},
		{"telemetry that is gone", "telemetry: {endpoint: 'http://127.0.0.1:4318'}\n", "", "refused", []string{"telemetry.endpoint"},
			func(r *running) (string, string) { return r.calls("ann", echo), "called" }},
		{"one field of both kinds", "", "timeout: 1s\ntrust: trusted\n", "partial", []string{"timeout"}, func(r *running) (string, string) {
			return r.calls("ann", cancel), "called"
		}},
		{"a fault", "", "trust: maybe\nlog: {level: debug}\n", "refused", nil, func(r *running) (string, string) {
			return r.level.String() + ", " + r.calls("ann", cancel), "info, blocked"
		}},
		{"names that collide, beside what is well", "", "tools: [{method: outrigger.demo.v1.Lab/Echo, tool: {name: lab.fail}}]\ntrust: trusted\nlog: {level: debug}\n", "refused", nil, func(r *running) (string, string) {
			return r.level.String() + ", " + r.calls("ann", cancel) + ", " + r.calls("ann", echo), "info, blocked, called"
		}},
		{"globs that leave nothing", "", "catalog: {include: ['nothing.*']}\n", "deferred", nil, func(r *running) (string, string) { return r.calls("ann", echo), "called" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := start(t, tt.before)
				r.configure(tt.after)
				if got := r.last("configuration"); got != tt.outcome {
					t.Errorf("%s, want %s; the log has %v", got, tt.outcome, r.log.All())
				}
				if got := r.FieldsWaiting(); !slices.Equal(got, tt.waiting) {
					t.Errorf("%q wait for a restart, want %q", got, tt.waiting)
				}
				if got, want := tt.check(r); got != want {
					t.Errorf("in use is %s, want %s", got, want)
				}
			})
		})
	}
}

// TestWhatIsSaidOfAReload: fields by name, faults line by line, and nothing twice.
func TestWhatIsSaidOfAReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		for _, step := range []struct {
			name, text string
			says       []string
		}{
			{"two faults", "trust: maybe\ngate: never\n", []string{
				"configuration rejected; keeping the last good one", "configuration error", "configuration error",
			}},
			{"both kinds", "timeout: 1s\ntrust: trusted\n", []string{
				"trust changed", "configuration changed", "timeout: change needs a restart; keeping the current value",
			}},
			{"one more", "timeout: 1s\ntrust: trusted\nlog: {level: warn}\n", []string{"configuration changed"}},
			{"back again", "trust: trusted\nlog: {level: warn}\n", []string{"timeout: matches the value in use again; no restart needed"}},
		} {
			r.configure(step.text)
			var got []string
			for _, line := range r.log.All() {
				got = append(got, line.Message)
			}
			if !slices.Equal(got, step.says) {
				t.Errorf("%s: the log says %q, want %q", step.name, got, step.says)
			}
		}
	})
}

// TestWhatAnOperatorHasSetStays where the file says nothing new about it.
func TestWhatAnOperatorHasSetStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		r.gate.Set(policy.Trusted)
		r.configure("log: {level: debug}\n")
		if got := r.calls("ann", cancel); got != "called" {
			t.Errorf("after another field changed: %s", got)
		}
	})
}

// TestABackendThatIsAway has what needs it tried again, also without a change of the
// file, and complains once.
func TestABackendThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		r.isAway.Store(true)
		r.configure("catalog: {exclude: ['outrigger.demo.v1.Lab/Echo']}\ntrust: trusted\n")
		r.pass()
		if got := r.last("configuration"); got != "deferred" || r.calls("ann", echo) != "called" || r.calls("ann", cancel) != "blocked" {
			t.Errorf("while it is away: %s, %s, %s", got, r.calls("ann", echo), r.calls("ann", cancel))
		}
		if lines := r.log.FilterMessage("configuration not usable yet; keeping the last good one and retrying").Len(); lines != 1 {
			t.Errorf("%d lines say so, want 1", lines)
		}
		r.isAway.Store(false)
		r.pass()
		if got := r.last("configuration"); got == "deferred" || r.calls("ann", echo) != "no tool" || r.calls("ann", cancel) != "called" {
			t.Errorf("once it is back: %s, %s, %s", got, r.calls("ann", echo), r.calls("ann", cancel))
		}
	})
}

// onServer are settings of descriptors that a slow server has.
const onServer = "fetch_timeout: 90s, descriptors: ['http://127.0.0.1:1/a.binpb']"

// TestASlowServerIsWaitedFor as long as fetch_timeout says, and what takes even longer is tried again.
func TestASlowServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		takes  time.Duration
		during string
	}{
		{"less than fetch_timeout", 85 * time.Second, "not read"},
		{"longer than a reload", 10 * time.Minute, "deferred"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := start(t, "catalog: {"+onServer+"}\n")
				release := r.hang()
				r.configure("catalog: {" + onServer + ", exclude: ['outrigger.demo.v1.Lab/Echo']}\ntrust: trusted\n")
				time.Sleep(tt.takes - 2*interval)
				synctest.Wait()
				if got := r.last("configuration"); got != tt.during || r.calls("ann", echo) != "called" {
					t.Errorf("while the server is slow: %s, %s", got, r.calls("ann", echo))
				}
				release()
				r.pass()
				if got := r.last("configuration"); got == "deferred" || got == "refused" || r.calls("ann", echo) != "no tool" || r.calls("ann", cancel) != "called" {
					t.Errorf("afterwards: %s, %s, %s", got, r.calls("ann", echo), r.calls("ann", cancel))
				}
				if n := r.log.FilterMessage("configuration changed").Len(); n != 1 {
					t.Errorf("%d lines say that it has changed, want 1", n)
				}
			})
		})
	}
}

// TestASlowServerHoldsNoOtherFileUp: credentials and rules are used while a changed configuration, a lock file or descriptors
// wait for a server.
func TestASlowServerHoldsNoOtherFileUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := prepare(t, "catalog: {"+onServer+"}\n")
		callers := filepath.Join(t.TempDir(), "callers.yaml")
		r.write(callers, "ann, bob")
		read := ""
		r.watcher.Add("callers", func(context.Context) reload.Outcome {
			text, err := os.ReadFile(callers)
			if err != nil {
				return reload.Refused
			}
			read = string(text)
			return reload.Applied
		}, callers)
		r.watch()
		release := r.hang()
		r.configure("catalog: {" + onServer + ", exclude: ['outrigger.demo.v1.Lab/Echo']}\n")
		r.write(callers, "ann")
		r.pass()
		if got := r.last("callers"); got != "applied" || read != "ann" || r.last("configuration") != "not read" {
			t.Errorf("while the server is slow: %s, %q is read, configuration %s", got, read, r.last("configuration"))
		}
		r.watcher.Now() // all groups, which come after the one that waits
		r.write(callers, "no one")
		r.pass()
		release()
		synctest.Wait()
		if read != "no one" || r.calls("ann", echo) != "no tool" || r.last("descriptors") == "not read" {
			t.Errorf("afterwards: %q is read, %s, descriptors %s", read, r.calls("ann", echo), r.last("descriptors"))
		}
		r.hang() // and the end comes
		r.configure("catalog: {" + onServer + "}\n")
	})
}

// publish replaces files as kubelet does those of a ConfigMap: they are in a new folder, to which the link ..data leads.
func publish(t *testing.T, dir, version string, files map[string]string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		(&running{t: t}).write(filepath.Join(dir, version, name), text)
	}
	tmp := filepath.Join(dir, "..tmp")
	if err := errors.Join(os.Symlink(version, tmp), os.Rename(tmp, filepath.Join(dir, "..data"))); err != nil {
		t.Fatal(err)
	}
}

// TestDescriptorFilesAreReloaded changes the file that tools come from, and the list of
// such files.
func TestDescriptorFilesAreReloaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		one, two := filepath.Join(dir, "one.binpb"), filepath.Join(dir, "two.binpb")
		lab, fleet := descriptors(t, demov1.File_outrigger_demo_v1_lab_proto), descriptors(t, demov1.File_outrigger_demo_v1_fleet_proto)
		write := func(path, text string) { (&running{t: t}).write(path, text) }
		// As kubelet publishes a file: a link through a link, and only the latter is replaced.
		if err := os.Symlink("..data/one.binpb", one); err != nil {
			t.Fatal(err)
		}
		publish(t, dir, "..0", map[string]string{"one.binpb": lab})
		write(two, lab)
		r := start(t, "catalog: {descriptors: ["+one+"]}\n")
		for i, step := range []struct {
			name, path, text string
			outcome          string
			echo, vehicle    string
		}{
			{"the same again", one, lab, "not read", "called", "no tool"},
			{"other services", one, fleet, "applied", "no tool", "called"},
			{"what is no descriptor set", one, "no descriptors", "refused", "no tool", "called"},
			{"a file that is not watched", two, fleet, "refused", "no tool", "called"},
			{"well again", one, lab, "applied", "called", "no tool"},
		} {
			if step.path == one {
				publish(t, dir, fmt.Sprintf("..%d", i+1), map[string]string{"one.binpb": step.text})
			} else {
				write(step.path, step.text)
			}
			r.pass()
			if got := r.last("descriptors"); got != step.outcome {
				t.Errorf("%s: %s, want %s", step.name, got, step.outcome)
			}
			if e, v := r.calls("ann", echo), r.calls("ann", "fleet.get_vehicle"); e != step.echo || v != step.vehicle {
				t.Errorf("%s: the lab's tool: %s, the fleet's: %s; want %s, %s", step.name, e, v, step.echo, step.vehicle)
			}
		}
		r.configure("catalog: {descriptors: [" + two + "]}\n")
		if got := r.last("configuration"); got != "applied" || r.calls("ann", "fleet.get_vehicle") != "called" {
			t.Errorf("another file: %s, %s", got, r.calls("ann", "fleet.get_vehicle"))
		}
		write(two, lab)
		r.pass()
		if got := r.calls("ann", echo); got != "called" {
			t.Errorf("a change of the file that is watched now: %s", got)
		}
		r.configure("")
		if got := r.FieldsWaiting(); r.last("configuration") != "refused" || !slices.Equal(got, []string{"catalog.descriptors"}) {
			t.Errorf("no file any more: %s, %q", r.last("configuration"), got)
		}
	})
}

// TestADescriptorFolderIsSwapped as kubelet swaps a ConfigMap: all files change at once, which is one reload.
func TestADescriptorFolderIsSwapped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		lab, fleet := descriptors(t, demov1.File_outrigger_demo_v1_lab_proto), descriptors(t, demov1.File_outrigger_demo_v1_fleet_proto)
		publish(t, dir, "..1", map[string]string{"lab.binpb": lab})
		r := start(t, "catalog: {descriptors: ["+dir+"]}\n")
		for _, step := range []struct {
			name, version  string
			files          map[string]string
			applied, tries uint64
			outcome        string
			echo, vehicle  string
		}{
			{"the same again", "..2", map[string]string{"lab.binpb": lab}, 0, 0, "not read", "called", "no tool"},
			{"one more file", "..3", map[string]string{"lab.binpb": lab, "fleet.pb": fleet}, 1, 1, "applied", "called", "called"},
			{"one file goes, one has another name", "..4", map[string]string{"other.binpb": fleet}, 2, 2, "applied", "no tool", "called"},
			{"no descriptor set", "..5", map[string]string{"README.md": "text"}, 2, 3, "refused", "no tool", "called"},
			{"well again", "..6", map[string]string{"lab.binpb": lab}, 3, 4, "applied", "called", "no tool"},
		} {
			publish(t, dir, step.version, step.files)
			r.pass()
			r.pass()
			if got := r.last("descriptors"); got != step.outcome {
				t.Errorf("%s: %s, want %s", step.name, got, step.outcome)
			}
			s := r.watcher.Status()[0]
			var tries uint64
			for _, n := range s.Counts {
				tries += n
			}
			if s.Group != "descriptors" || s.Counts[reload.Applied] != step.applied || tries != step.tries {
				t.Errorf("%s: %+v, want %d of %d reloads applied", step.name, s, step.applied, step.tries)
			}
			if e, v := r.calls("ann", echo), r.calls("ann", "fleet.get_vehicle"); e != step.echo || v != step.vehicle {
				t.Errorf("%s: the lab's tool: %s, the fleet's: %s; want %s, %s", step.name, e, v, step.echo, step.vehicle)
			}
		}
	})
}

// TestALackingDescriptorFileComes: the configuration that named it too early is used then.
func TestALackingDescriptorFileComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		one, two := filepath.Join(dir, "one.binpb"), filepath.Join(dir, "two.binpb")
		(&running{t: t}).write(one, descriptors(t, demov1.File_outrigger_demo_v1_lab_proto))
		r := start(t, "catalog: {descriptors: ["+one+"]}\n")
		r.configure("catalog: {descriptors: [" + one + ", " + two + "]}\n")
		if got := r.last("configuration"); got != "refused" || r.calls("ann", echo) != "called" {
			t.Errorf("before the file is there: %s, %s", got, r.calls("ann", echo))
		}
		r.write(two, descriptors(t, demov1.File_outrigger_demo_v1_lab_proto))
		r.pass()
		if got := r.last("configuration"); got != "refused" {
			t.Errorf("while nothing that is watched has changed: %s", got)
		}
		r.write(one, descriptors(t, demov1.File_outrigger_demo_v1_fleet_proto))
		r.pass()
		if e, v := r.calls("ann", echo), r.calls("ann", "fleet.get_vehicle"); r.last("configuration") != "applied" || e != "called" || v != "called" {
			t.Errorf("once it is there: the lab's tool: %s, the fleet's: %s, configuration %s", e, v, r.last("configuration"))
		}
	})
}

// TestAFileThatChangedBeforeItWasWatched is read again at once.
func TestAFileThatChangedBeforeItWasWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := prepare(t, "")
		r.write(r.file, always+"trust: trusted\n")
		r.watch()
		synctest.Wait()
		if got := r.last("configuration"); got != "applied" || r.calls("ann", cancel) != "called" {
			t.Errorf("%s, %s", got, r.calls("ann", cancel))
		}
	})
}

// TestTheFirstDescriptorFileWaits, and so does the end of the last one: what asks the
// backend is made at the start.
func TestTheFirstDescriptorFileWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "lab.binpb")
		(&running{t: t}).write(path, descriptors(t, demov1.File_outrigger_demo_v1_lab_proto))
		r := start(t, "")
		r.configure("catalog: {descriptors: [" + path + "]}\n")
		if got := r.FieldsWaiting(); r.last("configuration") != "refused" || !slices.Equal(got, []string{"catalog.descriptors"}) {
			t.Errorf("%s, %q wait", r.last("configuration"), got)
		}
		if got := r.calls("ann", "fleet.get_vehicle"); got != "called" {
			t.Errorf("a tool that the file does not have: %s", got)
		}
	})
}

// TestNothingToReload has no fields that wait.
func TestNothingToReload(t *testing.T) {
	t.Parallel()
	if got := (*reconfigure.Reloader)(nil).FieldsWaiting(); got != nil {
		t.Errorf("%q", got)
	}
}

// descriptors are those of a file, with all that it imports.
func descriptors(t *testing.T, file protoreflect.FileDescriptor) string {
	t.Helper()
	raw, err := proto.Marshal(mcptest.Descriptors(file))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
