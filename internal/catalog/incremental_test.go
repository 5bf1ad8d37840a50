// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"pgregory.net/rapid"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/source"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// draft is a file as the test changes it.
type draft struct {
	pkg, service, method string
	message              string // its name, of which two files may have the same
	fields               int
	comment              string
	imports              []int // other drafts, of which fields hold the messages
	// option is what its method says of itself.
	option   string
	extends  int // the draft whose message it extends, -1 for none
	required bool
}

// edit draws a file.
func edit(t *rapid.T, i, files int) *draft {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	d := &draft{
		pkg: pick("package", "shop.v1", "shop.v1beta1", fmt.Sprintf("own%d.v1", i)), service: pick("service", "Orders", "OrdersService", fmt.Sprintf("Own%d", i)),
		method: pick("method", "Get", "List", fmt.Sprintf("Do%d", i)), message: pick("message", "Order", fmt.Sprintf("M%d", i), fmt.Sprintf("M%d", i)),
		fields: rapid.IntRange(0, 3).Draw(t, "fields"), comment: pick("comment", "", "What it does.", "What it does now."),
		option: pick("option", "", "", "name", "title", "hidden", "resource"), extends: -1, required: rapid.Bool().Draw(t, "required"),
	}
	for j := range files {
		if j != i && rapid.IntRange(0, 4).Draw(t, "import") == 0 {
			d.imports = append(d.imports, j)
		}
	}
	if len(d.imports) > 0 && rapid.IntRange(0, 3).Draw(t, "extend") == 0 {
		d.extends = d.imports[0]
	}
	return d
}

func draftPath(i int) string { return fmt.Sprintf("f%d.proto", i) }

// file writes the draft as a descriptor. The names of imported messages are those that the imported drafts have now.
func (d *draft) file(i int, all []*draft) *descriptorpb.FileDescriptorProto {
	f := rpcFile(draftPath(i), d.pkg, d.service+"/"+d.method)
	f.Syntax = new("proto2")
	f.MessageType = nil
	m := &descriptorpb.DescriptorProto{Name: new(d.message), ExtensionRange: []*descriptorpb.DescriptorProto_ExtensionRange{{Start: new(int32(100)), End: new(int32(200))}}}
	add := func(name string, n int32, of string) {
		field := &descriptorpb.FieldDescriptorProto{Name: new(name), JsonName: new(name), Number: new(n), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()}
		if of != "" {
			field.Type, field.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), new(of)
		}
		m.Field = append(m.Field, field)
	}
	add("id", 1, "")
	for n := range d.fields {
		add(fmt.Sprintf("text%d", n), int32(10+n), "")
	}
	if d.required {
		m.Field[0].Label = descriptorpb.FieldDescriptorProto_LABEL_REQUIRED.Enum()
	}
	for _, j := range d.imports {
		f.Dependency = append(f.Dependency, draftPath(j))
		if all[j] != nil {
			add(fmt.Sprintf("held%d", j), int32(20+j), "."+all[j].pkg+"."+all[j].message)
		}
	}
	f.MessageType = []*descriptorpb.DescriptorProto{m}
	if d.extends >= 0 && all[d.extends] != nil {
		f.Extension = []*descriptorpb.FieldDescriptorProto{{
			Name: new(fmt.Sprintf("more%d", i)), Number: new(int32(100 + i)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Extendee: new("." + all[d.extends].pkg + "." + all[d.extends].message),
		}}
	}
	method := f.GetService()[0].GetMethod()[0]
	method.InputType, method.OutputType = new("."+d.pkg+"."+d.message), new("."+d.pkg+"."+d.message)
	method.Options = d.options(i)
	if d.comment != "" {
		f.SourceCodeInfo = &descriptorpb.SourceCodeInfo{}
		for _, path := range [][]int32{{6, 0}, {6, 0, 2, 0}, {4, 0}, {4, 0, 2, 0}} {
			f.SourceCodeInfo.Location = append(f.SourceCodeInfo.Location, &descriptorpb.SourceCodeInfo_Location{Path: path, Span: []int32{1, 2, 3}, LeadingComments: new(" " + d.comment + "\n")})
		}
	}
	return f
}

func (d *draft) options(i int) *descriptorpb.MethodOptions {
	tool := &optionsv1.ToolOptions{}
	switch d.option {
	case "":
		return nil
	case "name":
		tool.Name = "shop.named"
	case "title":
		tool.Title = "A title"
	case "hidden":
		tool.Hidden = new(true)
	}
	o := &descriptorpb.MethodOptions{}
	if d.option == "resource" {
		proto.SetExtension(o, optionsv1.E_Resource, &optionsv1.ResourceOptions{UriTemplate: fmt.Sprintf("shop://%d/{id}", i%2)})
	} else {
		proto.SetExtension(o, optionsv1.E_Tool, tool)
	}
	return o
}

// twoSets are two descriptor sets that a catalog is made of.
type twoSets struct {
	paths   [2]string
	drafts  []*draft // nil where there is none
	shared  []bool   // the second set has the file too
	options bool     // the first set defines our options
}

func (s *twoSets) sources() []source.Source {
	return []source.Source{source.NewDescriptorFile(s.paths[0], source.Limits{}), source.NewDescriptorFile(s.paths[1], source.Limits{})}
}

func (s *twoSets) write(t *rapid.T) {
	var sets [2]descriptorpb.FileDescriptorSet
	sets[1].File = append(sets[1].File, rpcFile("always.proto", "always", "Always/Get"))
	if s.options {
		for _, fd := range []protoreflect.FileDescriptor{descriptorpb.File_google_protobuf_descriptor_proto, optionsv1.File_outrigger_v1_options_proto} {
			sets[0].File = append(sets[0].File, withImports(fd)...)
		}
	}
	for i, d := range s.drafts {
		if d == nil {
			continue
		}
		f := d.file(i, s.drafts)
		sets[0].File = append(sets[0].File, f)
		if s.shared[i] {
			other := proto.CloneOf(f)
			other.SourceCodeInfo = nil
			if i%3 == 0 {
				other.Package = new("other") // the copies differ
			}
			sets[1].File = append(sets[1].File, other)
		}
	}
	if len(sets[0].File) == 0 {
		sets[0].File = append(sets[0].File, rpcFile("empty.proto", "empty"))
	}
	for i := range sets {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(&sets[i])
		if err == nil {
			err = os.WriteFile(s.paths[i], raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func withImports(fd protoreflect.FileDescriptor) []*descriptorpb.FileDescriptorProto {
	var out []*descriptorpb.FileDescriptorProto
	for i := range fd.Imports().Len() {
		out = append(out, withImports(fd.Imports().Get(i).FileDescriptor)...)
	}
	return append(out, protodesc.ToFileDescriptorProto(fd))
}

// seen is all that can be seen of a catalog, in words.
func seen(c *Catalog) []string {
	out := []string{c.Fingerprint(), c.Resources().Fingerprint(), fmt.Sprint(c.Paths()), fmt.Sprint(c.Warnings())}
	drift, isLocked := c.Drift()
	out = append(out, fmt.Sprintf("drift %+v %t", drift, isLocked))
	for _, s := range c.Services() {
		out = append(out, fmt.Sprint(s.Name, s.Source, len(s.Tools)))
	}
	for _, m := range slices.Concat(c.Resources().Fixed(), c.Resources().Templates(), c.Resources().Listings()) {
		out = append(out, "resource "+m.Procedure()+" "+m.URITemplate()+" "+c.ResourceTool(m).Name)
	}
	for _, t := range c.All() {
		found, _ := c.Lookup(t.Name)
		request, err := t.In.ToWire(nil, []byte(`{"id":"1","text0":"a","held1":{"id":"2"},"[shop.v1.more0]":"x"}`))
		out = append(out, fmt.Sprintf("%s %s %q %t %t", t.Name, t.MCPName, t.Alias, t.Hidden, found == t), t.Title, t.Description,
			fmt.Sprintf("%s %s %x %x", t.Fingerprint(), t.Method.Source, t.Input.Digest(), t.sealed),
			string(t.Input.Canonical()), string(t.Output.Advertised()), fmt.Sprintf("%x %v", request, err))
	}
	return out
}

// incrementalTime bounds the test: the race detector makes it six times as slow.
const incrementalTime = 30 * time.Second

// TestABuildOnTopOfAnotherIsAFullOne changes files at random and compares what comes out with what a build from nothing
// makes of the same files: tools, names, schemas, order, fingerprints, warnings and errors.
func TestABuildOnTopOfAnotherIsAFullOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	round, grown, start := 0, 0, time.Now()
	rapid.Check(t, func(t *rapid.T) {
		if round++; time.Since(start) > incrementalTime {
			return
		}
		const files = 6
		s := &twoSets{drafts: make([]*draft, files), shared: make([]bool, files), options: rapid.Bool().Draw(t, "options")}
		for i := range s.paths {
			s.paths[i] = filepath.Join(dir, fmt.Sprintf("%d-%d.binpb", round, i))
			defer func() { _ = os.Remove(s.paths[i]) }()
		}
		build := BuildOptions{Overlay: []Override{{Match: "own1.v1.*/Do1", Options: &configv1.ToolOptions{Title: "Overlaid"}}}}
		if rapid.Bool().Draw(t, "locked") {
			s.drafts[0], s.drafts[1] = edit(t, 0, files), edit(t, 1, files)
			s.write(t)
			build.Lock, build.RefuseDrift = s.lock(t, build), rapid.Bool().Draw(t, "refuse")
		}
		live := NewLive(s.sources(), LiveOptions{Build: build})
		for range rapid.IntRange(2, 8).Draw(t, "edits") {
			switch i := rapid.IntRange(0, files-1).Draw(t, "file"); rapid.SampledFrom([]string{"set", "set", "set", "remove", "share", "options"}).Draw(t, "edit") {
			case "set":
				s.drafts[i] = edit(t, i, files)
			case "remove":
				s.drafts[i] = nil
			case "share":
				s.shared[i] = !s.shared[i]
			case "options":
				s.options = !s.options
			}
			s.write(t)
			grown += s.compare(t, live, build)
		}
	})
	if grown == 0 {
		t.Error("nothing was ever taken over")
	}
	t.Logf("%d files were taken over", grown)
}

// lock is that of what the sets have now; nil if they have nothing that loads.
func (s *twoSets) lock(t *rapid.T, build BuildOptions) *lock.Lock {
	live := NewLive(s.sources(), LiveOptions{Build: build})
	if live.Refresh(t.Context()) != nil {
		return nil
	}
	entries, err := live.Current().LockEntries()
	if err != nil {
		t.Fatal(err)
	}
	return lock.New(entries)
}

// compare refreshes a catalog and builds another one from nothing. It says how many files were taken over.
func (s *twoSets) compare(t *rapid.T, live *Live, build BuildOptions) (taken int) {
	before := live.Current()
	err := live.Refresh(t.Context())
	fresh := NewLive(s.sources(), LiveOptions{Build: build})
	if want := fresh.Refresh(t.Context()); fmt.Sprint(err) != fmt.Sprint(want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	if err != nil {
		return 0
	}
	if diff := cmp.Diff(seen(fresh.Current()), seen(live.Current())); diff != "" {
		t.Fatalf("(-full +on top):\n%s", diff)
	}
	if before == nil {
		return 0
	}
	for _, now := range live.built.kept.files {
		if was, err := before.files.FindFileByPath(now.descriptor.Path()); err == nil && was == now.descriptor {
			taken++
		}
	}
	ours, theirs := live.Status().Sources, fresh.Status().Sources
	for i := range ours {
		if ours[i].Files != theirs[i].Files || ours[i].Services != theirs[i].Services {
			t.Fatalf("status %+v, want %+v", ours[i], theirs[i])
		}
	}
	return taken
}

// TestOnlyWhatChangedIsBuiltAgain looks at which descriptors are new after a change.
func TestOnlyWhatChangedIsBuiltAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "set.binpb")
	base, other := rpcFile("base.proto", "base", "Base/Get"), rpcFile("other.proto", "other", "Other/Get")
	user := rpcFile("user.proto", "user", "User/Get")
	user.Dependency = []string{"base.proto"}
	above := rpcFile("above.proto", "above", "Above/Get")
	above.Dependency = []string{"user.proto"}
	broken := rpcFile("broken.proto", "broken", "Broken/Get")
	broken.Dependency = []string{"nowhere.proto"}
	write := func(files ...*descriptorpb.FileDescriptorProto) {
		t.Helper()
		raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
		if err == nil {
			err = os.WriteFile(path, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(above, user, base, other, broken)
	live := NewLive([]source.Source{source.NewDescriptorFile(path, source.Limits{})}, LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what   string
		change func()
		again  []string
	}{
		{"a file is added", func() { write(above, user, base, other, broken, rpcFile("added.proto", "added", "Added/Get")) }, []string{"added.proto"}},
		{"it is gone", func() { write(above, user, base, other, broken) }, nil},
		{"a file that no other imports", func() { other.Service[0].Method[0].Name = new("Take"); write(above, user, base, other, broken) }, []string{"other.proto"}},
		{"a file below two others", func() { base.Service[0].Method[0].Name = new("Take"); write(above, user, base, other, broken) }, []string{"above.proto", "base.proto", "user.proto"}},
		{"another order", func() { write(broken, base, other, user, above) }, nil},
		{"what one needs", func() { write(base, other, user, above, broken, rpcFile("nowhere.proto", "nowhere")) }, []string{"broken.proto", "nowhere.proto"}},
	} {
		before := live.Current()
		tc.change()
		if err := live.Refresh(t.Context()); err != nil {
			t.Fatalf("%s: %v", tc.what, err)
		}
		if live.Current() == before {
			t.Fatalf("%s: nothing was built", tc.what)
		}
		var again []string
		for _, path := range live.Current().Paths() {
			now, _ := live.Current().Files().FindFileByPath(path)
			if was, err := before.Files().FindFileByPath(path); err != nil || was != now {
				again = append(again, path)
			}
		}
		if !slices.Equal(again, tc.again) {
			t.Errorf("%s: built again %v, want %v", tc.what, again, tc.again)
		}
	}
}

// TestWhatAServerReflectsIsTakenOver changes one source of several. The built-in copy of a file that a server does not
// serve counts as unchanged.
func TestWhatAServerReflectsIsTakenOver(t *testing.T) {
	t.Parallel()
	b, sources := newBearer(t)
	uses := rpcFile("uses.proto", "uses", "Uses/Get")
	uses.Dependency = []string{"google/protobuf/timestamp.proto"}
	b.reflects(rpcFile("a.proto", "a", "S/M"), uses)
	live := NewLive(sources, LiveOptions{})
	refresh := func() *Catalog {
		t.Helper()
		if err := live.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return live.Current()
	}
	before := refresh()
	b.reflects(rpcFile("a.proto", "a", "S/M", "S/N"), uses)
	after := refresh()
	for path, isSame := range map[string]bool{
		"a.proto": false, "uses.proto": true, "google/protobuf/timestamp.proto": true, "f.proto": true, "m.proto": true,
	} {
		was, _ := before.Files().FindFileByPath(path)
		now, err := after.Files().FindFileByPath(path)
		if err != nil || (was == now) != isSame {
			t.Errorf("%s is the same: %t, want %t (%v)", path, was == now, isSame, err)
		}
	}
	if _, ok := after.Lookup("s.n"); !ok {
		t.Error("the new method is missing")
	}
}

// TestADigestReachesBelowWhatIsTakenOver has a file that changes hold a message of one that does not, which holds one of
// another. What the digest of the tool is made of must not end where nothing has changed.
func TestADigestReachesBelowWhatIsTakenOver(t *testing.T) {
	t.Parallel()
	s := &twoSets{drafts: []*draft{
		{pkg: "low", service: "Low", method: "Get", message: "M", extends: -1},
		{pkg: "middle", service: "Middle", method: "Get", message: "M", imports: []int{0}, extends: -1},
		{pkg: "high", service: "High", method: "Get", message: "M", imports: []int{1}, extends: -1},
	}}
	path := filepath.Join(t.TempDir(), "set.binpb")
	digest := func(live *Live, comment string) source.Digest {
		t.Helper()
		s.drafts[2].comment = comment
		set := &descriptorpb.FileDescriptorSet{}
		for i, d := range s.drafts {
			set.File = append(set.File, d.file(i, s.drafts))
		}
		raw, err := proto.Marshal(set)
		if err == nil {
			err = os.WriteFile(path, raw, 0o600)
		}
		if err == nil {
			err = live.Refresh(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		tool, _ := live.Current().Lookup("high.get")
		return tool.Input.Digest()
	}
	from := []source.Source{source.NewDescriptorFile(path, source.Limits{})}
	live := NewLive(from, LiveOptions{})
	digest(live, "One.")
	if got, want := digest(live, "Two."), digest(NewLive(from, LiveOptions{}), "Two."); got != want {
		t.Errorf("digest %x, want %x", got, want)
	}
}
