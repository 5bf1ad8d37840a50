// SPDX-License-Identifier: Apache-2.0

package resource_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// FuzzMatch holds that a URI is read by the most particular method that can, and that a request is refused or taken.
func FuzzMatch(f *testing.F) {
	for _, seed := range []string{
		"library://hours", "library://books/7", "library://books/a%2F/pages/1", "library://books/1/pages/last", "library://books/%31",
		"library://covers/1:SIDE_FRONT/x.img?small=true", "library://leaflets/..", "library://books/../hours",
	} {
		f.Add(seed)
	}
	loaded, err := source.NewDescriptorFile("../testdata/library-buf.binpb.gz", source.Limits{}).Load(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	c, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{})
	if err != nil {
		f.Fatal(err)
	}
	r := c.Resources()
	f.Fuzz(func(t *testing.T, uri string) {
		m, variables, ok := r.Match(uri)
		for _, other := range slices.Concat(r.Fixed(), r.Templates()) {
			if _, fits := other.MatchURI(uri); fits && len(uri) <= resource.MaxURIBytes() && (!ok || other != m && other.Literals() >= m.Literals()) {
				t.Errorf("%q is read by %v, and could be by %s", uri, m, other.URITemplate())
			}
		}
		if !ok {
			return
		}
		if back, ok := m.MatchURI(m.Expand(variables)); !ok || fmt.Sprint(back) != fmt.Sprint(variables) {
			t.Errorf("%q has %q, and then %q", uri, variables, back)
		}
		request, err := m.Request(variables)
		if err != nil {
			if !errors.Is(err, resource.ErrNone) {
				t.Errorf("%q: %v", uri, err)
			}
			return
		}
		if _, err := c.ResourceTool(m).In.ToWire(nil, request); err != nil {
			t.Errorf("%q: the tool refuses %s: %v", uri, request, err)
		}
	})
}

// FuzzContents holds that a response becomes contents or an error, whatever it is.
func FuzzContents(f *testing.F) {
	for _, seed := range []string{
		`{"image":{"data":"aGk=","mimeType":"image/png"}}`, `{"contentType":"text/plain","data":"aGk="}`, `{"books":[{"id":"1","title":"a"},{}]}`,
		`{"text":"\ud83d\ude00"}`, `{"image":[]}`, `{"books":{}}`, `{"books":[`, `"`, `{"text":"a`,
	} {
		f.Add([]byte(seed))
	}
	loaded, err := source.NewDescriptorFile("../testdata/library-buf.binpb.gz", source.Limits{}).Load(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	c, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{})
	if err != nil {
		f.Fatal(err)
	}
	r := c.Resources()
	f.Fuzz(func(t *testing.T, response []byte) {
		for _, m := range slices.Concat(r.Fixed(), r.Templates()) {
			got, err := m.Contents("library://x", response)
			if (err == nil) != (got.GetData() != nil) {
				t.Errorf("contents %v, error %v", got, err)
			}
		}
		items, _ := r.Listings()[0].Items(response)
		for _, item := range items {
			m, variables, ok := r.Match(item.GetUri())
			if !ok {
				t.Fatalf("nothing reads %s", item.GetUri())
			}
			if _, err := m.Request(variables); err != nil || item.GetName() == "" {
				t.Errorf("%v: %v", item, err)
			}
		}
	})
}
