// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// audience is a caller that sees fields by chance, and always the same for one seed.
type audience struct {
	seed   uint64
	paths  []string
	always bool // nothing is seen as it is
	shows  bool // what varies is shown
	// only, if set, is the one message whose fields are not seen as they are.
	only protoreflect.FullName
}

func (a *audience) of(path string, fd protoreflect.FieldDescriptor) (transcode.Action, bool) {
	name := string(fd.FullName())
	if slices.Contains(a.paths, path) {
		name = path
	} else if path != "" && len(a.paths) > 0 && a.seed%2 == 0 {
		return transcode.Show, false // so that paths alone decide
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	n := (h.Sum64() ^ a.seed*0x9e3779b97f4a7c15) >> 7
	if a.only != "" && fd.ContainingMessage().FullName() != a.only {
		return transcode.Show, false
	}
	actions := []transcode.Action{transcode.Mask, transcode.Hash, transcode.Hide, transcode.Show, transcode.Show, transcode.Show}
	if a.always || slices.Contains(a.paths, path) {
		actions = actions[:3]
	}
	return actions[n%uint64(len(actions))], n/64%4 == 0
}

func (a *audience) sight() *schema.Sight {
	return schema.NewSight(func(path string, fd protoreflect.FieldDescriptor) (schema.Seen, bool) {
		action, varies := a.of(path, fd)
		seen := map[transcode.Action]schema.Seen{transcode.Mask: schema.SeenMasked, transcode.Hash: schema.SeenHashed, transcode.Hide: schema.SeenNot}[action]
		return seen, varies && seen != schema.SeenWhole
	}, a.paths)
}

func (a *audience) filter(s subject) *transcode.Filter {
	return transcode.NewFilter(s.md, transcode.FilterOptions{
		Of: func(path string, fd protoreflect.FieldDescriptor) transcode.Treatment {
			action, varies := a.of(path, fd)
			if varies && a.shows {
				return transcode.Treatment{}
			}
			return transcode.Treatment{Action: action}
		},
		Paths: a.paths, Extensions: s.resolver,
		Resolve: func(url string) protoreflect.MessageDescriptor {
			mt, err := s.resolver.FindMessageByURL(url)
			if err != nil {
				return nil
			}
			return mt.Descriptor()
		},
		Digest: func(value []byte) string { sum := sha256.Sum256(value); return hex.EncodeToString(sum[:8]) },
	})
}

// drawPaths are ways down from a message, by names.
func drawPaths(t *rapid.T, md protoreflect.MessageDescriptor) []string {
	var out []string
	for range rapid.IntRange(0, 3).Draw(t, "paths") {
		var names []string
		for at := md; at != nil && !schema.IsWellKnown(at) && at.Fields().Len() > 0 && len(names) < 4; {
			fd := at.Fields().Get(rapid.IntRange(0, at.Fields().Len()-1).Draw(t, "field"))
			names = append(names, string(fd.Name()))
			if at = fd.Message(); fd.IsMap() {
				at = fd.MapValue().Message()
			}
			if rapid.Bool().Draw(t, "ends") {
				break
			}
		}
		if len(names) > 0 {
			out = append(out, strings.Join(names, "."))
		}
	}
	return out
}

// The JSON that a caller gets keeps to the schemas that it is shown, in every form, and has nothing of what it does not see.
func TestWhatIsSeenKeepsToItsSchema(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, func(string) bool { return true }) {
		t.Run(string(s.md.FullName()), func(t *testing.T) {
			t.Parallel()
			ruled := hasRules(string(s.md.FullName()))
			rapid.Check(t, func(t *rapid.T) {
				who := &audience{seed: rapid.Uint64Range(0, 40).Draw(t, "seed"), always: ruled, shows: !ruled && rapid.Bool().Draw(t, "shows")}
				if !ruled && rapid.Bool().Draw(t, "by path") {
					who.paths = drawPaths(t, s.md)
				}
				if ruled && rapid.Bool().Draw(t, "shallow") {
					who.only = s.md.FullName()
				}
				seen(t, s, who)
			})
		})
	}
}

func seen(t *rapid.T, s subject, who *audience) {
	m := randomMessage(t, s, s.md, depthOfRandom)
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	left, err := who.filter(s).Apply(nil, wire)
	if err != nil {
		t.Fatalf("Apply: %v", err)
	}
	sight := who.sight()
	doc, err := s.message.Seen(sight).ToJSON(nil, left)
	if err != nil {
		t.Fatalf("ToJSON of %x: %v", left, err)
	}
	var value any
	if err := json.Unmarshal(doc, &value); err != nil {
		t.Fatal(err)
	}
	mustNotShow(t, value, s.md, sight, sight.Root())
	// To compile a schema takes most of the time, so each check has one form.
	profile := rapid.SampledFrom([]schema.Profile{schema.ProfileMCP, schema.ProfileStrict}).Draw(t, "profile")
	lazy := schema.Defer(s.md, schema.Output, &schema.Options{Extensions: s.resolver, Profile: profile}, [32]byte{}, nil).Seen(sight, "key", nil)
	shown := doc
	if s.wrapped {
		shown = append(append([]byte(`{"value":`), doc...), '}')
	}
	var raw json.RawMessage
	switch form := rapid.SampledFrom([]string{"advertised", "shared", "canonical"}).Draw(t, "form"); form {
	case "advertised":
		raw = lazy.Advertised()
	case "shared":
		raw = lazy.Shared()
	default:
		raw, shown = lazy.Canonical(), doc
	}
	admits(t, compiledSchema(t, raw), shown, "schema of the view "+string(raw))
}

func compiledSchema(t *rapid.T, raw []byte) *schema.Validator {
	v, err := schema.Compile(raw)
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	return v
}

// mustNotShow finds members that a caller does not see. What an Any holds is not looked into.
func mustNotShow(t *rapid.T, v any, md protoreflect.MessageDescriptor, sight *schema.Sight, at *schema.Place) {
	object, isObject := v.(map[string]any)
	if !isObject || md == nil || schema.IsWellKnown(md) {
		return
	}
	for name, value := range object {
		fd := md.Fields().ByJSONName(name)
		if fd == nil {
			continue
		}
		if sight.Hides(at, fd) {
			t.Fatalf("%s is shown: %v", fd.FullName(), v)
		}
		below := at.Below(fd)
		switch {
		case fd.IsMap():
			for _, entry := range value.(map[string]any) {
				mustNotShow(t, entry, fd.MapValue().Message(), sight, below)
			}
		case fd.IsList():
			for _, item := range value.([]any) {
				mustNotShow(t, item, fd.Message(), sight, below)
			}
		default:
			mustNotShow(t, value, fd.Message(), sight, below)
		}
	}
}
