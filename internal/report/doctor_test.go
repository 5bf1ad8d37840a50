// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"context"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	ratelimitv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/ratelimit/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/ratetest"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// examine has doctor examine a sidecar of this configuration. What it returns is what
// a person reads, with times and addresses left out.
func examine(t *testing.T, cfg *configv1.Config, o server.Options) (report.Diagnoses, string) {
	t.Helper()
	cfg.Record.Dir = proto.String("off")
	app, err := server.New(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := app.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var printed bytes.Buffer
	var shown []report.Diagnosis
	found := report.Examine(t.Context(), app, nil, func(f report.Diagnosis) {
		shown = append(shown, f)
		f.Print(&printed)
	})
	if !reflect.DeepEqual(shown, found.Findings) {
		t.Errorf("shown are %+v, returned are %+v", shown, found.Findings)
	}
	text := regexp.MustCompile(`in [0-9.]+(µs|ms|s)\b`).ReplaceAllString(printed.String(), "in TIME")
	text = strings.ReplaceAll(text, "\u00a0", " ") // the Protobuf library writes either, so that texts of its errors are not compared
	text = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).ReplaceAllString(text, "ADDRESS")
	text = regexp.MustCompile(`[^ (]*/notes\.md`).ReplaceAllString(text, "FOLDER/notes.md")
	text = regexp.MustCompile(`/\S+\.binpb`).ReplaceAllString(text, "FILE")
	return found, regexp.MustCompile(`(?m) +$`).ReplaceAllString(text, "")
}

// update reports whether the tests were asked to rewrite goldens: the flag is that of the tests inside the package.
func update() bool { return flag.Lookup("update").Value.String() == "true" }

// golden holds the texts of all rows, by their names.
const golden = "testdata/steps.txtar"

// TestEveryStep has a row for each way in which a step can end. The whole text that a
// person reads is in testdata/steps.txtar.
func TestEveryStep(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range archive.Files {
		want[f.Name] = string(f.Data)
	}
	var mu sync.Mutex
	got := &txtar.Archive{Comment: archive.Comment}
	t.Cleanup(func() {
		if update() {
			slices.SortFunc(got.Files, func(a, b txtar.File) int { return strings.Compare(a.Name, b.Name) })
			if err := os.WriteFile(golden, txtar.Format(got), 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	for _, tt := range []struct {
		name string
		// backend is the URL of the backend; nil has none.
		backend   func(t *testing.T) string
		configure func(t *testing.T, c *configv1.Config)
		more      []source.Source
		isOK      bool
	}{
		{name: "all is well", backend: func(t *testing.T) string { return serve(t, demoService(t)) }, isOK: true},
		{name: "no backend", more: []source.Source{mcptest.Source()}},
		{name: "nothing listens", backend: func(t *testing.T) string { return "grpc://" + testkit.Dead(t) }},
		{
			name: "nothing listens, but there is a descriptor file", backend: func(t *testing.T) string { return "grpc://" + testkit.Dead(t) },
			configure: func(t *testing.T, c *configv1.Config) { c.Catalog.Descriptors = []string{descriptorFile(t)} },
		},
		{
			name: "descriptors of services that the backend does not have, and reflection", backend: func(t *testing.T) string {
				return serve(t, reflecting("grpc.health.v1.Health", "outrigger.demo.v1.Fleet"))
			},
			configure: func(t *testing.T, c *configv1.Config) { c.Catalog.Descriptors = []string{descriptorFile(t)} },
		},
		{
			name: "descriptors of services that the backend does not have, and no reflection", backend: grpcHealth,
			configure: func(t *testing.T, c *configv1.Config) { c.Catalog.Descriptors = []string{descriptorFile(t)} },
		},
		{
			name: "descriptors of another version", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(t *testing.T, c *configv1.Config) { c.Catalog.Descriptors = []string{describedLab(t)} },
		},
		{name: "a web server", backend: func(t *testing.T) string {
			return mcptest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = w.Write([]byte("<html></html>"))
			}))
		}},
		{name: "TLS for a port without it", backend: func(t *testing.T) string {
			return "grpcs" + strings.TrimPrefix(serve(t, demoService(t)), "grpc")
		}},
		{name: "no reflection", backend: func(t *testing.T) string { return serve(t, without(t, "12", "/grpc.reflection.")) }},
		{name: "a service that reflection does not describe", backend: func(t *testing.T) string { return serve(t, reflecting("outrigger.demo.v1.Lab", "gogo.v1.Gone")) }, isOK: true},
		{name: "no service that reflection describes", backend: func(t *testing.T) string { return serve(t, reflecting("gogo.v1.Gone")) }},
		{name: "unknown methods answered with success", backend: func(t *testing.T) string { return serve(t, obliging(t)) }, isOK: true},
		{
			name: "unknown methods answered with success, and the tool API is wanted", backend: func(t *testing.T) string { return serve(t, obliging(t)) },
			configure: func(_ *testing.T, c *configv1.Config) { c.Catalog.Native = proto.String("on") },
		},
		{name: "reflection of nothing", backend: func(t *testing.T) string { return serve(t, reflecting()) }},
		{name: "credentials are missing", backend: func(t *testing.T) string { return serve(t, without(t, "16", "/")) }},
		{
			name: "credentials are wrong", backend: func(t *testing.T) string { return serve(t, without(t, "16", "/")) },
			configure: func(_ *testing.T, c *configv1.Config) {
				c.Backend.Metadata.Static = map[string]string{"authorization": "Bearer no"}
			},
		},
		{name: "only the health check is guarded", backend: func(t *testing.T) string { return serve(t, without(t, "7", "/grpc.health.")) }, isOK: true},
		{
			name: "names that destroy", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			more:      []source.Source{mcptest.Source("PlaceOrder", "AssignOrder")},
			configure: func(_ *testing.T, c *configv1.Config) { c.Tools = destroying() }, isOK: true,
		},
		{
			name: "names that destroy, and a gate that goes by declarations", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			more:      []source.Source{mcptest.Source("PlaceOrder", "AssignOrder")},
			configure: func(_ *testing.T, c *configv1.Config) { c.Tools, c.Gate = destroying(), proto.String("marked") }, isOK: true,
		},
		{name: "no comments", backend: func(t *testing.T) string { return serve(t, reflecting("outrigger.demo.v1.Lab")) }, isOK: true},
		{
			name: "comments from descriptors", backend: func(t *testing.T) string { return serve(t, reflecting("outrigger.demo.v1.Lab")) },
			configure: func(t *testing.T, c *configv1.Config) {
				c.Catalog.Descriptors, c.Catalog.DescriptorsUse = []string{describedLab(t)}, proto.String("comments")
			}, isOK: true,
		},
		{
			name: "descriptors that cannot be fetched", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(t *testing.T, c *configv1.Config) {
				c.Catalog.Descriptors = []string{"http://" + testkit.Dead(t) + "/api.pb?secret"}
			},
		},
		{
			name: "examples that are wrong", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(t *testing.T, c *configv1.Config) { c.Catalog.Descriptors = []string{wrongExamples(t)} }, // of a service that the backend does not have
		},
		{
			name: "nothing is left", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(_ *testing.T, c *configv1.Config) { c.Catalog.Include = []string{"nothing.*"} },
		},
		{
			name: "two tools of one name", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(_ *testing.T, c *configv1.Config) {
				c.Tools = []*configv1.ToolOverlay{{Method: "outrigger.demo.v1.Lab/Echo", Tool: &configv1.ToolOptions{Name: "lab.fail"}}}
			},
		},
		{
			name: "a compact list", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(_ *testing.T, c *configv1.Config) { c.Catalog.Mode = proto.String("compact") }, isOK: true,
		},
		{
			name: "a list that is larger than the budget", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(_ *testing.T, c *configv1.Config) {
				c.Catalog.Mode, c.Catalog.CompactAboveBytes = proto.String("auto"), proto.Int32(4096)
			},
			isOK: true,
		},
		{
			name: "skills, and a list that fits", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(t *testing.T, c *configv1.Config) {
				c.Catalog.Mode, c.Catalog.CompactAboveBytes = proto.String("auto"), proto.Int32(1<<20)
				c.Catalog.Skills = []string{skillFolder(t)}
			},
			isOK: true,
		},
		{
			name: "a warning of the catalog", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(_ *testing.T, c *configv1.Config) {
				c.Tools = []*configv1.ToolOverlay{{Method: "outrigger.demo.v1.Lab/Ecko", Tool: &configv1.ToolOptions{Name: "lab.ecko"}}}
			},
			isOK: true,
		},
		{
			name: "every caller is trusted, and more is destructive", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(_ *testing.T, c *configv1.Config) {
				c.Trust, c.Gate = proto.String("trusted"), proto.String("writes")
			},
			isOK: true,
		},
		{
			name: "a rate limit service", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(t *testing.T, c *configv1.Config) {
				c.RateService.Url, c.RateService.Timeout = ratetest.Start(t).URL(), durationpb.New(5*time.Second)
			},
			isOK: true,
		},
		{
			name: "a slow rate limit service", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(t *testing.T, c *configv1.Config) {
				peer := ratetest.Start(t)
				peer.Answer(func(ctx context.Context, r *ratelimitv1.RateLimitRequest) (*ratelimitv1.RateLimitResponse, error) {
					time.Sleep(2 * time.Millisecond)
					return ratetest.OK()(ctx, r)
				})
				c.RateService.Url, c.RateService.Timeout = peer.URL(), durationpb.New(time.Millisecond)
			},
			isOK: true,
		},
		{
			name: "no rate limit service, and calls run", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(t *testing.T, c *configv1.Config) { c.RateService.Url = "grpc://" + testkit.Dead(t) }, isOK: true,
		},
		{
			name: "no rate limit service, and calls are rejected", backend: func(t *testing.T) string { return serve(t, demoService(t)) },
			configure: func(t *testing.T, c *configv1.Config) {
				c.RateService.Url, c.RateService.Failure = "grpc://"+testkit.Dead(t), proto.String("closed")
			},
		},
		{
			name: "a backend of the tool API", backend: func(t *testing.T) string { return "connect+" + mcptest.Desk().Start(t) },
			configure: func(_ *testing.T, c *configv1.Config) { c.Catalog.Native = proto.String("on") }, isOK: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Defaults(config.Serve)
			cfg.Backend.ProbeTimeout = durationpb.New(2 * time.Second)
			if tt.backend != nil {
				cfg.Backend.Url = tt.backend(t)
			}
			if tt.configure != nil {
				tt.configure(t, cfg)
			}
			found, text := examine(t, cfg, server.Options{Sources: tt.more})
			mu.Lock()
			got.Files = append(got.Files, txtar.File{Name: tt.name, Data: []byte(text)})
			mu.Unlock()
			if diff := cmp.Diff(want[tt.name], text); diff != "" && !update() {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if found.OK != tt.isOK {
				t.Errorf("ok is %t, want %t", found.OK, tt.isOK)
			}
		})
	}
}

// skillFolder has a skill, and a file that is in none.
func skillFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{"guide/SKILL.md": "---\nname: guide\ndescription: How to order.\n---\n", "notes.md": "# Notes\n"} {
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// destroying are names that say of three RPCs that they destroy. The third declares otherwise.
func destroying() []*configv1.ToolOverlay {
	const fleet = "outrigger.demo.v1.Fleet/"
	return []*configv1.ToolOverlay{
		{Method: fleet + "PlaceOrder", Tool: &configv1.ToolOptions{Name: "fleet.kill_order"}},
		{Method: fleet + "AssignOrder", Tool: &configv1.ToolOptions{Name: "fleet.order_remove"}},
		{Method: fleet + "ReportPositions", Tool: &configv1.ToolOptions{Name: "fleet.wipe_positions"}},
	}
}
