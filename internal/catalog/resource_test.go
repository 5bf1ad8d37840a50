// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
)

const libraryImage = "testdata/library-buf.binpb.gz"

// library is the catalog of library.proto, whose options make resources.
func library(t *testing.T, overlay ...Override) *Catalog {
	t.Helper()
	return mustBuild(t, BuildOptions{Overlay: overlay}, loadFile(t, libraryImage))
}

// reader finds the method that reads a URI, which must be there.
func reader(t *testing.T, c *Catalog, uri string) (*resource.Method, map[string]string) {
	t.Helper()
	m, variables, ok := c.Resources().Match(uri)
	if !ok {
		t.Fatalf("nothing reads %s", uri)
	}
	return m, variables
}

func templatesOf(methods []*resource.Method) (out []string) {
	for _, m := range methods {
		out = append(out, m.URITemplate())
	}
	return out
}

func TestOptionsMakeResources(t *testing.T) {
	t.Parallel()
	c := library(t)
	r := c.Resources()
	for what, diff := range map[string]string{
		"fixed": cmp.Diff([]string{"library://hours"}, templatesOf(r.Fixed())),
		"templates": cmp.Diff([]string{
			"library://books/{book.id}/pages/{number}", "library://books/{id}", "library://books/{id}/pages/last",
			"library://covers/{shelf}:{side}/{book}.img?small={small}", "library://leaflets/{id}",
		}, templatesOf(r.Templates())),
		"listings": cmp.Diff([]string{"library://books/{id}"}, templatesOf(r.Listings())),
	} {
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if r.IsEmpty() || !garden(t).Resources().IsEmpty() {
		t.Error("the library has no resources, or the garden has some")
	}
	half := 0.5
	want := &outriggerv1.Resource{
		Uri: "library://hours", Name: "hours", Title: "When the library is open", Description: "When the library is open.",
		MimeType: "application/json", Annotations: &outriggerv1.Annotations{Priority: &half},
	}
	if diff := cmp.Diff(want, r.Fixed()[0].Resource(), protocmp.Transform()); diff != "" {
		t.Errorf("fixed resource (-want +got):\n%s", diff)
	}
	for i, want := range []*outriggerv1.ResourceTemplate{
		{UriTemplate: "library://books/{book.id}/pages/{number}", Name: "library.get_page", Title: "A page", Description: "What stands on a page.", MimeType: "text/plain"},
		{UriTemplate: "library://books/{id}", Name: "library.get_book", Title: "Look up a book", Description: "Look up a book.", MimeType: "application/json",
			Icons: []*outriggerv1.Icon{{Src: "https://example.com/book.png"}}},
		{UriTemplate: "library://books/{id}/pages/last", Name: "library.get_last_page", Title: "Read the newest page of a book",
			Description: "Read the newest page of a book.", MimeType: "text/markdown"},
		{UriTemplate: "library://covers/{shelf}:{side}/{book}.img?small={small}", Name: "library.get_cover", Title: "Look at the cover of a book",
			Description: "Look at the cover of a book."},
		{UriTemplate: "library://leaflets/{id}", Name: "library.get_leaflet", Title: "Read a leaflet", Description: "Read a leaflet."},
	} {
		m := r.Templates()[i]
		if diff := cmp.Diff(want, m.Template(), protocmp.Transform()); diff != "" || m.Resource() != nil {
			t.Errorf("template (-want +got):\n%s", diff)
		}
	}
	if m := r.Fixed()[0]; m.Template() != nil || r.Listings()[0].Template() != nil || r.Listings()[0].Resource() != nil {
		t.Error("a fixed resource is a template, or a listing is something to read")
	}
	if len(c.Warnings()) > 0 {
		t.Errorf("warnings %v", c.Warnings())
	}
}

func TestAURIFindsItsMethodAndRequest(t *testing.T) {
	t.Parallel()
	c := library(t)
	for uri, want := range map[string]string{ // to method and request
		"library://hours":                      "library.get_hours {}",
		"library://books/7":                    `library.get_book {"id":"7"}`,
		"library://books/18446744073709551615": `library.get_book {"id":"18446744073709551615"}`,
		"library://books/a%2F..%22/pages/-12":  `library.get_page {"book":{"id":"a/..\""},"number":-12}`,
		"library://books/7/pages/last":         `library.get_last_page {"id":"7"}`,
		"library://books/7/pages/%6Cast":       "none of last",
		"library://covers/-9223372036854775808:SIDE_FRONT/x.img.img?small=true": `library.get_cover {"shelf":"-9223372036854775808","side":"SIDE_FRONT","book":"x.img","small":true}`,
		"library://covers/1:SIDE_FRONT/x.img?small=yes":                         "none of yes",
		"library://covers/1:1/x.img?small=true":                                 "none of 1",
		"library://covers/1:SIDE_BACK/x.img?small=true":                         "none of SIDE_BACK",
		"library://covers/01:SIDE_FRONT/x.img?small=true":                       "none of 01",
		"library://books/18446744073709551616":                                  "none of 18446744073709551616",
		"library://books/-1":                                                    "none of -1",
		"library://books/+1":                                                    "nothing",
		"library://books/%2B1":                                                  "none of +1",
		"library://books/1e3":                                                   "none of 1e3",
		"library://books/1.0":                                                   "none of 1.0",
		"library://books/007":                                                   "none of 007",
		"library://books/x":                                                     "none of x",
		"library://books/1/pages/2147483648":                                    "none of 2147483648",
		"library://books/1/pages/-0":                                            "none of -0",
		"library://books/":                                                      "nothing",
		"library://books/7/":                                                    "nothing",
		"library://books":                                                       "nothing",
		"library://hours/":                                                      "nothing",
		"library://Hours":                                                       "nothing",
		"library:hours":                                                         "nothing",
		"":                                                                      "nothing",
		"library://leaflets/" + strings.Repeat("1", 8192):                       "nothing",
	} {
		m, variables, ok := c.Resources().Match(uri)
		got := "nothing"
		if ok {
			request, err := m.Request(variables)
			got = c.ResourceTool(m).Name + " " + string(request)
			if err != nil {
				got = "none of " + strings.Trim(err.Error()[strings.LastIndex(err.Error(), " ")+1:], `"`)
				if !errors.Is(err, resource.ErrNone) || request != nil {
					t.Errorf("%.60s: request %s, error %v", uri, request, err)
				}
			} else if _, err := c.ResourceTool(m).In.ToWire(nil, request); err != nil {
				t.Errorf("%.60s: the tool refuses %s: %v", uri, request, err)
			}
		}
		if got != want {
			t.Errorf("%.60s: %s, want %s", uri, got, want)
		}
	}
}

// TestAHiddenToolCanBeAResource has a method that is read and not called.
func TestAHiddenToolCanBeAResource(t *testing.T) {
	t.Parallel()
	c := library(t)
	m, _ := reader(t, c, "library://books/x/pages/1")
	if _, ok := c.Lookup(c.ResourceTool(m).Name); ok || !c.ResourceTool(m).Hidden {
		t.Errorf("the tool %s is there to be called", c.ResourceTool(m).Name)
	}
	load := loadFile(t, libraryImage)
	c = mustBuild(t, BuildOptions{Selection: selection(t, nil, []string{"*/GetPage"})}, load)
	if _, _, ok := c.Resources().Match("library://books/x/pages/1"); ok {
		t.Error("an excluded method is read")
	}
}

func TestContentsOfAResource(t *testing.T) {
	t.Parallel()
	c := library(t)
	text := func(mimeType, text string) *outriggerv1.ResourceContents {
		return &outriggerv1.ResourceContents{MimeType: mimeType, Data: &outriggerv1.ResourceContents_Text{Text: text}}
	}
	blob := func(mimeType, data string) *outriggerv1.ResourceContents {
		return &outriggerv1.ResourceContents{MimeType: mimeType, Data: &outriggerv1.ResourceContents_Blob{Blob: []byte(data)}}
	}
	const cover, leaflet = "library://covers/1:SIDE_FRONT/x.img?small=false", "library://leaflets/1"
	pixels := base64.StdEncoding.EncodeToString([]byte("\xff\x00"))
	for _, tc := range []struct {
		uri, response string
		want          *outriggerv1.ResourceContents
		fault         string
	}{
		{"library://hours", `{"from":9,"until":17}`, text("application/json", `{"from":9,"until":17}`), ""},
		{"library://books/1/pages/1", `{"text":"One\n\"upon\" a time"}`, text("text/plain", "One\n\"upon\" a time"), ""},
		{"library://books/1/pages/1", `{}`, text("text/plain", ""), ""},
		{"library://books/1/pages/last", `{"text":"# One"}`, text("text/markdown", "# One"), ""},
		{"library://books/1/pages/1", `{"text":7}`, nil, "the member text of the response is no string"},
		{cover, `{"image":{"data":"` + pixels + `","mimeType":"image/png"}}`, blob("image/png", "\xff\x00"), ""},
		{cover, `{"image":{"data":"","mimeType":""}}`, blob("application/octet-stream", ""), ""},
		{cover, `{"image":null}`, blob("application/octet-stream", ""), ""},
		{cover, `{}`, blob("application/octet-stream", ""), ""},
		{cover, `[]`, blob("application/octet-stream", ""), ""},
		{cover, `{"image":{"data":"aGVsbG8=","mimeType":"text/plain"}}`, blob("text/plain", "hello"), ""},
		{cover, `{"image":{"data":"_w==","mimeType":"image/png"}}`, nil, "image.data of the response is no base64"},
		{cover, `{"image":{"data":"","mimeType":"png"}}`, nil, `the media type "png", which is none`},
		{cover, `{"image":{"data":"","mimeType":"image/png\nX: y"}}`, nil, `the media type "image/png?X: y", which is none`},
		{cover, `{"image":{"data":"","mimeType":"image/` + strings.Repeat("p", 256) + `"}}`, nil, "which is none"},
		{leaflet, `{"contentType":"text/html; charset=UTF-8","data":"PGI+"}`, text("text/html; charset=UTF-8", "<b>"), ""},
		{leaflet, `{"contentType":"application/ld+json","data":"e30="}`, text("application/ld+json", "{}"), ""},
		{leaflet, `{"contentType":"text/html; charset=utf8","data":"PGI+"}`, text("text/html; charset=utf8", "<b>"), ""},
		{leaflet, `{"contentType":"text/html; charset=latin1","data":"PGI+"}`, blob("text/html; charset=latin1", "<b>"), ""},
		{leaflet, `{"contentType":"text/plain","data":"` + pixels + `"}`, blob("text/plain", "\xff\x00"), ""},
		{leaflet, `{"contentType":"application/pdf","data":"JVBERg=="}`, blob("application/pdf", "%PDF"), ""},
		{leaflet, `{"contentType":"","data":"PGI+"}`, blob("application/octet-stream", "<b>"), ""},
	} {
		m, _ := reader(t, c, tc.uri)
		got, err := m.Contents(tc.uri, []byte(tc.response))
		if tc.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%s: error %v, want %q", tc.response, err, tc.fault)
			}
			continue
		}
		tc.want.Uri = tc.uri
		if diff := cmp.Diff(tc.want, got, protocmp.Transform()); err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", tc.response, err, diff)
		}
	}
	if _, err := c.Resources().Listings()[0].Contents("library://books/1", []byte(`{}`)); err == nil {
		t.Error("a listing has contents")
	}
	if _, err := c.Resources().Fixed()[0].Items([]byte(`{}`)); err == nil {
		t.Error("a fixed resource has items")
	}
}

// TestContentsAreWhatTheTranscoderWrites reads answers in their own encoding.
func TestContentsAreWhatTheTranscoderWrites(t *testing.T) {
	t.Parallel()
	c := library(t)
	for _, m := range slices.Concat(c.Resources().Fixed(), c.Resources().Templates()) {
		body, err := c.ResourceTool(m).Out.ToJSON(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Contents(m.Sample(), body)
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		rules := &contractRules{}
		if err := rules.check(got); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}

func TestItemsOfAList(t *testing.T) {
	t.Parallel()
	m := library(t).Resources().Listings()[0]
	if request, err := m.Request(nil); err != nil || string(request) != `{}` {
		t.Errorf("request %s, %v", request, err)
	}
	book := func(uri, name, title string) *outriggerv1.Resource {
		return &outriggerv1.Resource{Uri: uri, Name: name, Title: title, MimeType: "application/json"}
	}
	long := strings.Repeat("n", 2000)
	for _, tc := range []struct {
		response string
		want     []*outriggerv1.Resource
		fault    string
	}{
		{`{"books":[{"id":"7","title":"One\n two"},{"id":"0","title":""}]}`,
			[]*outriggerv1.Resource{book("library://books/7", "One two", "One two"), book("library://books/0", "library.list_books", "")}, ""},
		{`{"books":[{"id":"1","title":"` + long + `"}]}`, []*outriggerv1.Resource{book("library://books/1", long[:1021]+"…", long[:1021]+"…")}, ""},
		{`{"books":[]}`, nil, ""},
		{`{}`, nil, ""},
		{`{"books":[{"id":"x","title":"bad"},{"id":"2","title":"good"},{},{"id":null}]}`,
			[]*outriggerv1.Resource{book("library://books/2", "good", "good")}, "item 1: there is no such resource: id is an integer"},
		{`{"books":[{}]}`, nil, "item 1: it has no id"},
	} {
		got, err := m.Items([]byte(tc.response))
		if (tc.fault == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%.60s: error %v, want %q", tc.response, err, tc.fault)
		}
		if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%.60s (-want +got):\n%s", tc.response, diff)
		}
	}
	const most = 10_000 // what outrigger.v1.ListResourcesResponse admits
	var many []string
	for i := range most + 2 {
		many = append(many, fmt.Sprintf(`{"id":"%d"}`, i))
	}
	got, err := m.Items([]byte(`{"books":[` + strings.Join(many, ",") + `]}`))
	if len(got) != most || err == nil || !strings.Contains(err.Error(), "after the first 10000") {
		t.Errorf("%d resources, error %v", len(got), err)
	}
}

// TestListedResourcesCanBeRead follows a URI from the list to the request.
func TestListedResourcesCanBeRead(t *testing.T) {
	t.Parallel()
	load := loadFile(t, libraryImage)
	for _, f := range load.Files {
		if f.GetName() == "library/v1/library.proto" {
			for _, m := range f.GetMessageType() {
				if n := m.GetName(); n == "Book" || n == "GetBookRequest" {
					m.GetField()[0].Type = descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()
				}
			}
		}
	}
	c := mustBuild(t, BuildOptions{}, load)
	got, err := c.Resources().Listings()[0].Items([]byte(`{"books":[{"id":"a/b ü%2F\u0001?#"}]}`))
	if err != nil || len(got) != 1 || got[0].GetUri() != "library://books/a%2Fb%20%C3%BC%252F%01%3F%23" {
		t.Fatalf("%v, %v", got, err)
	}
	m, variables := reader(t, c, got[0].GetUri())
	if request, err := m.Request(variables); err != nil || string(request) != `{"id":"a/b ü%2F\u0001?#"}` {
		t.Errorf("request %s, %v", request, err)
	}
}
