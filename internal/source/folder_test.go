// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/descriptorpb"
)

// put writes files into a folder.
func put(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func packedSet(t *testing.T, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// withComment is a file with source info, as with a comment.
func withComment(f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	f.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{{Path: []int32{12}, Span: []int32{0, 0, 1}}}}
	return f
}

func namesIn(loaded *Loaded) []string {
	var out []string
	for _, f := range loaded.Files {
		out = append(out, f.GetName())
	}
	return out
}

func TestAFolderIsOneSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string][]byte{
		"b.pb":       setOf(t, plainFile("b.proto", "common.proto"), withComment(plainFile("common.proto"))),
		"a.binpb":    setOf(t, plainFile("a.proto", "common.proto"), plainFile("common.proto")),
		"c.desc.gz":  packedSet(t, setOf(t, plainFile("c.proto"))),
		"README.md":  []byte("text"),
		".hidden.pb": []byte("no set"),
	})
	put(t, filepath.Join(dir, "below.pb"), map[string][]byte{"d.pb": []byte("no set")})
	loaded, err := newDescriptorFolder(dir, Limits{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := namesIn(loaded); !slices.Equal(got, []string{"a.proto", "common.proto", "b.proto", "c.proto"}) {
		t.Errorf("files %q", got)
	}
	if loaded.Files[1].GetSourceCodeInfo() == nil {
		t.Error("the copy with comments is not used")
	}
	if !loaded.Static || loaded.Source != "descriptor folder "+dir {
		t.Errorf("loaded %+v", loaded)
	}
	if len(loaded.Warnings) != 1 || !strings.Contains(loaded.Warnings[0].String(), "README.md, below.pb are not read") {
		t.Errorf("warnings %v", loaded.Warnings)
	}
}

func TestFoldersThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	other := plainFile("a.proto")
	other.Package = new("other")
	many := map[string][]byte{}
	for i := range maxSets + 1 {
		many[fmt.Sprintf("%d.pb", i)] = setOf(t, plainFile("a.proto"))
	}
	for _, tc := range []struct {
		name   string
		files  map[string][]byte
		limits Limits
		want   []string
	}{
		{"nothing", nil, Limits{}, []string{"it has no descriptor set", ".binpb, .pb, .desc"}},
		{"nothing of its kind", map[string][]byte{"a.proto": nil, ".pb": nil}, Limits{}, []string{"it has no descriptor set"}},
		{"two copies that differ", map[string][]byte{"a.pb": setOf(t, plainFile("a.proto")), "b.pb": setOf(t, other)}, Limits{},
			[]string{"a.pb and b.pb have different copies of a.proto"}},
		{"one of two is broken", map[string][]byte{"a.pb": setOf(t, plainFile("a.proto")), "b.pb": []byte("{}")}, Limits{}, []string{"b.pb: ", "JSON"}},
		{"one of two is empty", map[string][]byte{"a.pb": setOf(t, plainFile("a.proto")), "b.pb": nil}, Limits{}, []string{"b.pb: the file is empty"}},
		{"together too many files", map[string][]byte{"a.pb": setOf(t, plainFile("a.proto")), "b.pb": setOf(t, plainFile("b.proto"))}, Limits{MaxFiles: 1},
			[]string{"more than 1 files"}},
		{"together too large", map[string][]byte{"a.pb": setOf(t, plainFile("a.proto")), "b.pb": setOf(t, plainFile("b.proto"))}, Limits{MaxBytes: 20},
			[]string{"more than 20 bytes", "limits.max_descriptor_bytes"}},
		{"together too large once unpacked", map[string][]byte{
			"a.pb.gz": packedSet(t, setOf(t, plainFile(strings.Repeat("a", 3000)))), "b.pb.gz": packedSet(t, setOf(t, plainFile(strings.Repeat("b", 3000)))),
		}, Limits{MaxBytes: 4000}, []string{"more than 4000 bytes together"}},
		{"too many sets", many, Limits{}, []string{"more than 256 descriptor sets"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, tc.files)
			_, err := newDescriptorFolder(dir, tc.limits).Load(t.Context())
			var failed *Error
			if !errors.As(err, &failed) || !failed.Permanent {
				t.Fatalf("error %v, want one that is permanent", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		if _, err := newDescriptorFolder(filepath.Join(t.TempDir(), "none"), Limits{}).Load(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := newDescriptorFolder(t.TempDir(), Limits{}).Load(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

// TestCopiesOfCompilers differ between their versions, which is no one's mistake.
func TestCopiesOfCompilers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newer := plainFile("google/protobuf/any.proto")
	newer.Package = new("google.protobuf")
	put(t, dir, map[string][]byte{"a.pb": setOf(t, plainFile("google/protobuf/any.proto")), "b.pb": setOf(t, newer)})
	loaded, err := newDescriptorFolder(dir, Limits{}).Load(t.Context())
	if err != nil || len(loaded.Files) != 1 {
		t.Errorf("%v, error %v", loaded, err)
	}
}

// mount is a folder as kubelet mounts a ConfigMap.
type mount struct {
	t   *testing.T
	dir string
}

// publish swaps all files at once.
func (m mount) publish(version string, files map[string][]byte) {
	m.t.Helper()
	put(m.t, filepath.Join(m.dir, version), files)
	tmp := filepath.Join(m.dir, "..data_tmp")
	if err := errors.Join(os.Symlink(version, tmp), os.Rename(tmp, filepath.Join(m.dir, configMapData))); err != nil {
		m.t.Fatal(err)
	}
	for name := range files {
		if err := os.Symlink(filepath.Join(configMapData, name), filepath.Join(m.dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			m.t.Fatal(err)
		}
	}
}

func TestAMountedConfigMap(t *testing.T) {
	t.Parallel()
	m := mount{t, t.TempDir()}
	m.publish("..1", map[string][]byte{"a.pb": setOf(t, plainFile("a.proto"))})
	s := newDescriptorFolder(m.dir, Limits{}).(Conditional)
	first, err := s.LoadUnless(t.Context(), nil)
	if err != nil || !slices.Equal(namesIn(first), []string{"a.proto"}) {
		t.Fatalf("%v, error %v", first, err)
	}
	if again, err := s.LoadUnless(t.Context(), first.Revision); again != nil || err != nil {
		t.Errorf("nothing has changed: %v, error %v", again, err)
	}
	m.publish("..2", map[string][]byte{"a.pb": setOf(t, plainFile("a.proto"))})
	if again, err := s.LoadUnless(t.Context(), first.Revision); again != nil || err != nil {
		t.Errorf("the same again: %v, error %v", again, err)
	}
	m.publish("..3", map[string][]byte{"a.pb": setOf(t, plainFile("a2.proto")), "b.pb": setOf(t, plainFile("b.proto"))})
	if err := os.Remove(filepath.Join(m.dir, "b.pb")); err != nil { // kubelet makes the links to new files later
		t.Fatal(err)
	}
	if now, err := s.LoadUnless(t.Context(), first.Revision); err != nil || !slices.Equal(namesIn(now), []string{"a2.proto", "b.proto"}) {
		t.Errorf("%v, error %v", now, err)
	}
	want := []string{filepath.Join(m.dir, "..data", "a.pb"), filepath.Join(m.dir, "..data", "b.pb")}
	if got := folderFiles(m.dir); !slices.Equal(got, want) {
		t.Errorf("files to watch %q, want %q", got, want)
	}
}

// TestNoLoadHasFilesOfTwoVersions swaps a mount while it is read: every version has a file a and a file b that say the same.
func TestNoLoadHasFilesOfTwoVersions(t *testing.T) {
	t.Parallel()
	m := mount{t, t.TempDir()}
	versions := []string{"..1", "..2"}
	publish := func(i int) {
		v := versions[i%2]
		m.publish(v, map[string][]byte{"a.pb": setOf(t, plainFile("a"+v)), "b.pb": setOf(t, plainFile("b"+v))})
	}
	publish(0)
	publish(1)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				tmp := filepath.Join(m.dir, "..data_tmp")
				if err := errors.Join(os.Symlink(versions[i%2], tmp), os.Rename(tmp, filepath.Join(m.dir, configMapData))); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	s := newDescriptorFolder(m.dir, Limits{})
	for range 200 {
		loaded, err := s.Load(t.Context())
		if errors.Is(err, errUnsteady) {
			continue
		}
		if err != nil {
			t.Error(err)
			break
		}
		if names := namesIn(loaded); len(names) != 2 || names[0][1:] != names[1][1:] {
			t.Errorf("files of two versions: %q", names)
			break
		}
	}
	close(stop)
	<-done
}

func TestNamesOfDescriptorSets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a.binpb": true, "a.pb": true, "a.desc": true, "a.binpb.gz": true, "a.proto": false, "a.gz": false, ".pb": false, "pb": false, "a.pb.txt": false, "": false,
	} {
		if got := isSetName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
