// SPDX-License-Identifier: Apache-2.0

//go:build unix

package catalog

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/source"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// vast describes a set of APIs of the size and shape of googleapis: services of ten methods, each in two versions and a
// separate file, with comments, over messages that hold messages of common files.
type vast struct{ services int }

// fullSize is 11,340 methods.
var fullSize = vast{567}

// files are all files of the set.
func (v vast) files() []*descriptorpb.FileDescriptorProto {
	out := make([]*descriptorpb.FileDescriptorProto, 0, 2*v.services+8)
	for i := range 8 {
		out = append(out, v.common(i))
	}
	for i := range v.services {
		out = append(out, v.service(i, "v1"), v.service(i, "v1beta1"))
	}
	return out
}

// common is a file that others import: a message of common types, and an enum.
func (v vast) common(i int) *descriptorpb.FileDescriptorProto {
	f := newVastFile(fmt.Sprintf("vast/common/c%d.proto", i), "vast.common")
	f.enum(fmt.Sprintf("State%d", i), 8)
	f.message(fmt.Sprintf("Shared%d", i), 8, nil)
	return f.FileDescriptorProto
}

func (v vast) service(i int, version string) *descriptorpb.FileDescriptorProto {
	pkg := fmt.Sprintf("vast.s%d.%s", i, version)
	f := newVastFile(strings.ReplaceAll(pkg, ".", "/")+".proto", pkg)
	shared := make([]string, 0, 2)
	for j := range 2 {
		n := (i + j) % 8
		f.Dependency = append(f.Dependency, fmt.Sprintf("vast/common/c%d.proto", n))
		shared = append(shared, fmt.Sprintf(".vast.common.Shared%d", n))
	}
	f.message("Part", 6, shared)
	f.message("Thing", 12, append(shared, "."+pkg+".Part"))
	s := &descriptorpb.ServiceDescriptorProto{Name: new(fmt.Sprintf("Things%d", i))}
	for j, verb := range []string{"Get", "List", "Create", "Update", "Delete", "Move", "Copy", "Export", "Import", "Watch"} {
		request, response := verb+"Request", verb+"Response"
		f.message(request, 4, []string{"." + pkg + ".Thing"}[:j%2])
		f.message(response, 2, []string{"." + pkg + ".Thing"})
		s.Method = append(s.Method, &descriptorpb.MethodDescriptorProto{
			Name: new(verb + "Thing"), InputType: new("." + pkg + "." + request), OutputType: new("." + pkg + "." + response),
		})
		f.comment(6, 0, 2, int32(j))
	}
	f.Service = append(f.Service, s)
	return f.FileDescriptorProto
}

// vastFile writes a file and its comments.
type vastFile struct {
	*descriptorpb.FileDescriptorProto
}

func newVastFile(path, pkg string) vastFile {
	return vastFile{&descriptorpb.FileDescriptorProto{
		Name: new(path), Package: new(pkg), Syntax: new("proto3"), SourceCodeInfo: &descriptorpb.SourceCodeInfo{},
	}}
}

func (f vastFile) comment(path ...int32) {
	f.SourceCodeInfo.Location = append(f.SourceCodeInfo.Location, &descriptorpb.SourceCodeInfo_Location{
		Path: path, Span: []int32{int32(len(f.SourceCodeInfo.Location)), 2, 40},
		LeadingComments: new(fmt.Sprintf(" What %s holds at %v, in the words that the authors of an API have for it, such as units and bounds.\n",
			f.GetPackage(), path)),
	})
}

func (f vastFile) enum(name string, values int32) {
	e := &descriptorpb.EnumDescriptorProto{Name: new(name)}
	for i := range values {
		e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: new(fmt.Sprintf("%s_%d", strings.ToUpper(name), i)), Number: new(i)})
	}
	f.EnumType = append(f.EnumType, e)
}

// message has fields of several kinds, and one for each message that it holds.
func (f vastFile) message(name string, fields int32, holds []string) {
	m := &descriptorpb.DescriptorProto{Name: new(name)}
	at := int32(len(f.MessageType))
	kinds := []descriptorpb.FieldDescriptorProto_Type{
		descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_INT64,
		descriptorpb.FieldDescriptorProto_TYPE_BOOL, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
	}
	for i := range fields + int32(len(holds)) {
		field := &descriptorpb.FieldDescriptorProto{
			Name: new(fmt.Sprintf("field_%d_of", i)), Number: new(i + 1), JsonName: new(fmt.Sprintf("field%dOf", i)),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		if i < fields {
			field.Type = kinds[int(i)%len(kinds)].Enum()
		} else {
			field.Type, field.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), new(holds[i-fields])
		}
		m.Field = append(m.Field, field)
		f.comment(4, at, 2, i)
	}
	f.MessageType = append(f.MessageType, m)
	f.comment(4, at)
}

// write writes the set with more files to a file.
func (v vast) write(tb testing.TB, path string, more ...*descriptorpb.FileDescriptorProto) {
	tb.Helper()
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: append(v.files(), more...)})
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// cpu is the time that the process has used on all processors.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peak watches the heap while something runs, and says how large it was at most, garbage included.
func peak(do func()) uint64 {
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		var highest uint64
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			highest = max(highest, m.HeapAlloc)
			select {
			case <-stop:
				most <- highest
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	do()
	close(stop)
	return <-most
}

// BenchmarkVastStart loads and builds a catalog of the size of googleapis, and says what it holds for each method.
func BenchmarkVastStart(b *testing.B) {
	path := filepath.Join(b.TempDir(), "vast.binpb")
	fullSize.write(b, path)
	var live *Live
	before := cpu(b)
	for b.Loop() {
		live = NewLive([]source.Source{source.NewDescriptorFile(path, source.Limits{})}, LiveOptions{})
		if err := live.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
	tools := len(live.Current().Tools())
	with := heap()
	runtime.KeepAlive(live)
	b.ReportMetric(float64(with-heap())/float64(tools), "heap-B/tool")
	b.ReportMetric(float64(tools), "tools")
}

// BenchmarkVastOneMoreFile refreshes such a catalog after one small file was added to its descriptors.
func BenchmarkVastOneMoreFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "vast.binpb")
	fullSize.write(b, path)
	live := NewLive([]source.Source{source.NewDescriptorFile(path, source.Limits{})}, LiveOptions{})
	if err := live.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	atRest, tools := heap(), len(live.Current().Tools())
	var used time.Duration
	var most uint64
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		sum := sha256.Sum256([]byte{byte(i)})
		name := fmt.Sprintf("Added%x", sum[:4])
		fullSize.write(b, path, rpcFile("added.proto", "added", name+"/Get"))
		heap()
		b.StartTimer()
		before := cpu(b)
		most = max(most, peak(func() {
			if err := live.Refresh(context.Background()); err != nil {
				b.Error(err)
			}
		}))
		used += cpu(b) - before
		if now := len(live.Current().Tools()); now != tools+1 {
			b.Fatal(now)
		}
	}
	b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(atRest)/(1<<20), "rest-MiB")
	b.ReportMetric(float64(most)/float64(atRest), "peak/rest")
	b.ReportMetric(float64(heap())/float64(atRest), "after/rest")
	runtime.KeepAlive(live)
}
