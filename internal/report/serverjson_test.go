// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/outrigger-mcp/outrigger/internal/report"
)

func good() report.ServerJSONOptions {
	return report.ServerJSONOptions{
		Name: "com.example/shop", Description: "Sells things.", Version: "1.4.2", URLs: []string{"https://tools.example.com/mcp"},
		Catalog: report.PublishedCatalog{Digest: strings.Repeat("a", 64), Tools: 33},
	}
}

const image = "ghcr.io/example/shop@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestDocument(t *testing.T) {
	t.Parallel()
	doc, faults := report.NewServerJSON(good())
	if len(faults) > 0 || len(doc.Warnings()) > 0 {
		t.Fatal(faults, doc.Warnings())
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"com.example/shop",` +
		`"description":"Sells things.","version":"1.4.2","remotes":[{"type":"streamable-http","url":"https://tools.example.com/mcp"}],` +
		`"_meta":{"io.modelcontextprotocol.registry/publisher-provided":{"dev.outrigger/catalog":{"digest":"` + strings.Repeat("a", 64) + `","tools":33}}}}`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Error(diff)
	}
	o := good()
	o.Image = image
	doc, faults = report.NewServerJSON(o)
	if raw, err = json.Marshal(doc.Packages); err != nil || len(faults) > 0 || string(raw) != `[{"registryType":"oci","identifier":"`+image+`","transport":{"type":"stdio"}}]` {
		t.Errorf("with an image: %s %v %v", raw, err, faults)
	}
	o = good()
	o.URLs = nil
	doc, _ = report.NewServerJSON(o)
	if raw, err = json.Marshal(doc); err != nil || strings.Contains(string(raw), "remotes") {
		t.Errorf("without URLs: %s %v", raw, err)
	}
}

// TestPublisherPartIsSmall: the registry refuses more than 4 KB.
func TestPublisherPartIsSmall(t *testing.T) {
	t.Parallel()
	o := good()
	o.Catalog.Tools = 1 << 62
	doc, _ := report.NewServerJSON(o)
	if raw, err := json.Marshal(doc.Meta.Publisher); err != nil || len(raw) > 4096 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 300)
	for name, tc := range map[string]struct {
		change func(*report.ServerJSONOptions)
		field  string
		want   string // part of the text; empty where there is no fault
	}{
		"no name":                 {func(o *report.ServerJSONOptions) { o.Name = "" }, "name", "is required"},
		"no slash":                {func(o *report.ServerJSONOptions) { o.Name = "shop" }, "name", "one slash"},
		"two slashes":             {func(o *report.ServerJSONOptions) { o.Name = "com.example/shop/v1" }, "name", "one slash"},
		"no namespace":            {func(o *report.ServerJSONOptions) { o.Name = "/shop" }, "name", "one slash"},
		"underscore in namespace": {func(o *report.ServerJSONOptions) { o.Name = "com_example/shop" }, "name", "one slash"},
		"shortest name":           {func(o *report.ServerJSONOptions) { o.Name = "a/b" }, "", ""},
		"space in the name":       {func(o *report.ServerJSONOptions) { o.Name = "com.example/my shop" }, "name", "one slash"},
		"long name":               {func(o *report.ServerJSONOptions) { o.Name = "com.example/" + strings.Repeat("s", 189) }, "name", "has 201 characters; the limit is 200"},
		"longest name":            {func(o *report.ServerJSONOptions) { o.Name = "com.example/" + strings.Repeat("s", 188) }, "", ""},
		"all that a name may":     {func(o *report.ServerJSONOptions) { o.Name = "io.github.a-b/Shop_v1.2-x" }, "", ""},
		"blank description":       {func(o *report.ServerJSONOptions) { o.Description = " " }, "description", "must not be empty"},
		"long description":        {func(o *report.ServerJSONOptions) { o.Description = long[:2*101] }, "description", "has 101 characters; the limit is 100"},
		"longest description":     {func(o *report.ServerJSONOptions) { o.Description = long[:2*100] }, "", ""},
		"no version":              {func(o *report.ServerJSONOptions) { o.Version = "" }, "version", "must not be empty"},
		"long version":            {func(o *report.ServerJSONOptions) { o.Version = long[:2*256] }, "version", "the limit is 255"},
		"latest":                  {func(o *report.ServerJSONOptions) { o.Version = "latest" }, "version", `not "latest"`},
		"caret":                   {func(o *report.ServerJSONOptions) { o.Version = "^1.2.3" }, "version", "is a range"},
		"at least":                {func(o *report.ServerJSONOptions) { o.Version = ">=1.2.3" }, "version", "is a range"},
		"wildcard":                {func(o *report.ServerJSONOptions) { o.Version = "1.x" }, "version", "is a range"},
		"star":                    {func(o *report.ServerJSONOptions) { o.Version = "v1.2.*" }, "version", "is a range"},
		"from to":                 {func(o *report.ServerJSONOptions) { o.Version = "1.0.0 - 2.0.0" }, "version", "is a range"},
		"either":                  {func(o *report.ServerJSONOptions) { o.Version = "1.0.0 || 2.0.0" }, "version", "is a range"},
		"pre-release":             {func(o *report.ServerJSONOptions) { o.Version = "2.1.0-x.1" }, "", ""},
		"devel":                   {func(o *report.ServerJSONOptions) { o.Version = "devel" }, "", ""},
		"no URL":                  {func(o *report.ServerJSONOptions) { o.URLs = []string{"tools.example.com/mcp"} }, "url", "http or https URL"},
		"another scheme":          {func(o *report.ServerJSONOptions) { o.URLs = []string{"grpc://tools.example.com"} }, "url", "http or https URL"},
		"no host":                 {func(o *report.ServerJSONOptions) { o.URLs = []string{"https:///mcp"} }, "url", "http or https URL"},
		"space":                   {func(o *report.ServerJSONOptions) { o.URLs = []string{"https://a.example/m cp"} }, "url", "http or https URL"},
		"template":                {func(o *report.ServerJSONOptions) { o.URLs = []string{"https://a.example/{tenant}"} }, "url", "not a template"},
		"twice":                   {func(o *report.ServerJSONOptions) { o.URLs = append(o.URLs, o.URLs[0]) }, "url", "given twice"},
		"image with a tag":        {func(o *report.ServerJSONOptions) { o.Image = strings.Replace(image, "@", ":1.4.2@", 1) }, "", ""},
		"image with a port":       {func(o *report.ServerJSONOptions) { o.Image = strings.Replace(image, "ghcr.io", "localhost:5000", 1) }, "", ""},
		"image without a digest":  {func(o *report.ServerJSONOptions) { o.Image = "ghcr.io/example/shop:1.4.2" }, "oci", "has no digest"},
		"image without a host":    {func(o *report.ServerJSONOptions) { o.Image = strings.TrimPrefix(image, "ghcr.io/") }, "oci", "must be HOST/REPOSITORY@sha256:DIGEST"},
		"image of a host":         {func(o *report.ServerJSONOptions) { o.Image = strings.Replace(image, "/example/shop", "", 1) }, "oci", "must be HOST/REPOSITORY"},
		"image in upper case":     {func(o *report.ServerJSONOptions) { o.Image = strings.Replace(image, "shop", "Shop", 1) }, "oci", "must be HOST/REPOSITORY"},
		"image with a scheme":     {func(o *report.ServerJSONOptions) { o.Image = "oci://" + image }, "oci", "must be HOST/REPOSITORY"},
		"image with half a sum":   {func(o *report.ServerJSONOptions) { o.Image = image[:len(image)-1] }, "oci", "must be HOST/REPOSITORY"},
		"long image":              {func(o *report.ServerJSONOptions) { o.Image = strings.Repeat("x", 1025) }, "oci", "the limit is 1024"},
	} {
		o := good()
		tc.change(&o)
		_, faults := report.NewServerJSON(o)
		switch {
		case tc.want == "" && len(faults) > 0:
			t.Errorf("%s: %v", name, faults)
		case tc.want != "" && (len(faults) != 1 || faults[0].Field != tc.field || !strings.Contains(faults[0].Text, tc.want)):
			t.Errorf("%s: %v, want one of %s: %q", name, faults, tc.field, tc.want)
		}
	}
	o := good()
	o.URLs = []string{"https://me:secret@a.example/mcp"}
	if _, faults := report.NewServerJSON(o); len(faults) != 1 || strings.Contains(faults[0].Text, "secret") {
		t.Errorf("credentials: %v", faults)
	}
	if _, faults := report.NewServerJSON(report.ServerJSONOptions{URLs: []string{"x"}}); len(faults) != 4 {
		t.Errorf("not all faults at once: %v", faults)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	o := good()
	o.URLs = []string{"https://a.example/mcp", "http://b.example/mcp", "https://localhost/mcp", "http://127.0.0.1:8080/mcp", "https://[::1]/mcp"}
	doc, faults := report.NewServerJSON(o)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if got := doc.Warnings(); len(got) != 4 || !strings.Contains(got[0], "not https") || !strings.Contains(got[1], "the host itself") {
		t.Errorf("%q", got)
	}
	for _, name := range []string{"a/b", "com.example/s", "com.example/shop-", ".com/shop"} {
		o := good()
		o.Name = name
		if doc, _ := report.NewServerJSON(o); len(doc.Warnings()) != 1 || !strings.Contains(doc.Warnings()[0], "the official registry wants") {
			t.Errorf("%s: %q", name, doc.Warnings())
		}
	}
	for host, isKnown := range map[string]bool{
		"ghcr.io": true, "docker.io": true, "us-docker.pkg.dev": true, "shop.azurecr.io": true, "registry.example.com": false, "ghcr.io.example.com": false, "pkg.dev": false,
	} {
		o := good()
		o.Image = strings.Replace(image, "ghcr.io", host, 1)
		doc, faults := report.NewServerJSON(o)
		if got := doc.Warnings(); len(faults) > 0 || (len(got) == 0) != isKnown || !isKnown && !strings.Contains(got[0], "the official registry takes public images of") {
			t.Errorf("%s: %q %v", host, got, faults)
		}
	}
}

func TestShortDescription(t *testing.T) {
	t.Parallel()
	exact := strings.Repeat("word ", 19) + "words" // 100 characters
	for name, tc := range map[string]struct{ in, want string }{
		"short":             {"Manages  a\nfleet.", "Manages a fleet."},
		"exact":             {exact, exact},
		"at a word":         {exact + " and more", strings.TrimSpace(strings.Repeat("word ", 19)) + "…"},
		"no comma at a cut": {strings.Repeat("word ", 18) + "word, wordwordword", strings.TrimSpace(strings.Repeat("word ", 19)) + "…"},
		"one word":          {strings.Repeat("é", 150), strings.Repeat("é", 99) + "…"},
	} {
		got := report.ShortDescription(tc.in)
		if got != tc.want || utf8.RuneCountInString(got) > report.MaxServerDescription {
			t.Errorf("%s: %q (%d characters), want %q", name, got, utf8.RuneCountInString(got), tc.want)
		}
	}
}
