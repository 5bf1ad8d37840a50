// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	v1pb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	v1alphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// gardenServices is what the real peers list: the garden, and what they would list beside it.
func gardenServices() []string {
	return []string{"garden.v1.GardenKeeper", "grpc.reflection.v1.ServerReflection", "grpc.health.v1.Health"}
}

// connectReflector is a connect-go server's reflection of the garden.
func connectReflector(t *testing.T) *grpcreflect.Reflector {
	t.Helper()
	return grpcreflect.NewReflector(grpcreflect.NamerFunc(gardenServices),
		grpcreflect.WithDescriptorResolver(garden(t).Files()))
}

// serveGRPC starts a grpc-go server on loopback and returns its URL.
func serveGRPC(t *testing.T, register func(*grpc.Server)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return "http://" + l.Addr().String()
}

// grpcNames lists services to grpc-go's reflection.
type grpcNames struct{}

func (grpcNames) GetServiceInfo() map[string]grpc.ServiceInfo {
	out := map[string]grpc.ServiceInfo{}
	for _, name := range gardenServices() {
		out[name] = grpc.ServiceInfo{}
	}
	return out
}

func TestReflectionOfRealPeers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		serve   func(t *testing.T) string
		options []connect.ClientOption
	}{
		{"connect-go, v1", func(t *testing.T) string {
			mux := http.NewServeMux()
			mux.Handle(grpcreflect.NewHandlerV1(connectReflector(t)))
			return serveH2C(t, mux)
		}, nil},
		{"connect-go, v1, over the Connect protocol", func(t *testing.T) string {
			mux := http.NewServeMux()
			mux.Handle(grpcreflect.NewHandlerV1(connectReflector(t)))
			return serveH2C(t, mux)
		}, []connect.ClientOption{connect.WithSendMaxBytes(0)}},
		{"connect-go, v1, over gRPC-Web", func(t *testing.T) string {
			mux := http.NewServeMux()
			mux.Handle(grpcreflect.NewHandlerV1(connectReflector(t)))
			return serveH2C(t, mux)
		}, []connect.ClientOption{connect.WithGRPCWeb()}},
		{"connect-go, v1alpha only", func(t *testing.T) string {
			mux := http.NewServeMux()
			mux.Handle(grpcreflect.NewHandlerV1Alpha(connectReflector(t)))
			return serveH2C(t, mux)
		}, nil},
		{"grpc-go, v1", func(t *testing.T) string {
			c := garden(t)
			return serveGRPC(t, func(s *grpc.Server) {
				v1pb.RegisterServerReflectionServer(s, reflection.NewServerV1(reflection.ServerOptions{
					Services: grpcNames{}, DescriptorResolver: c.Files(), ExtensionResolver: c.Types()}))
			})
		}, nil},
		{"grpc-go, v1alpha only", func(t *testing.T) string {
			c := garden(t)
			return serveGRPC(t, func(s *grpc.Server) {
				v1alphapb.RegisterServerReflectionServer(s, reflection.NewServer(reflection.ServerOptions{
					Services: grpcNames{}, DescriptorResolver: c.Files(), ExtensionResolver: c.Types()}))
			})
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			url := tc.serve(t)
			loaded, err := source.NewReflection(url, dialTo(t, url, tc.options...), source.ReflectionOptions{}).Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(loaded.Services, []string{"garden.v1.GardenKeeper"}) {
				t.Errorf("services %v, want the garden alone", loaded.Services)
			}
			want, got := garden(t), mustBuild(t, BuildOptions{}, loaded)
			if diff := cmp.Diff(namesOf(want), namesOf(got)); diff != "" {
				t.Errorf("tools (-image +reflection):\n%s", diff)
			}
			tool := toolOf(t, got, "garden.uproot")
			if !tool.Metadata.Destructive || tool.Version != "1.2.0" {
				t.Errorf("options are lost: destructive %v, version %s", tool.Metadata.Destructive, tool.Version)
			}
		})
	}
}

func TestReflectionUsesOneStreamAndClosesIt(t *testing.T) {
	t.Parallel()
	a, b := rpcFile("a.proto", "a", "S/M"), rpcFile("b.proto", "b", "T/M")
	a.Dependency = []string{"c.proto"}
	peer := telling(a, b, rpcFile("c.proto", "c"))
	url := peer.serve(t, reflectionV1)
	if _, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{}).Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	peer.mu.Lock()
	defer peer.mu.Unlock()
	if diff := cmp.Diff([]string{"list", "symbol a.S", "symbol b.T", "file c.proto"}, peer.seen); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
	if peer.streams != 1 || peer.open != 0 {
		t.Errorf("%d streams, %d still open after Load, want one and none", peer.streams, peer.open)
	}
}

func TestReflectionKeepsCommentsThatTheServerHas(t *testing.T) {
	t.Parallel()
	image := loadFile(t, bufImage)
	peer := telling(image.Files...)
	peer.services = []string{"garden.v1.GardenKeeper"}
	url := peer.serve(t, reflectionV1)
	loaded, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := toolOf(t, mustBuild(t, BuildOptions{}, loaded), "garden_keeper.talk").Description; got != "Talk to plants." {
		t.Errorf("description %q", got)
	}
}

func TestReflectionAsksForNothingThatIsExcluded(t *testing.T) {
	t.Parallel()
	peer := telling(rpcFile("a.proto", "a", "S/M"), rpcFile("h.proto", "grpc.health.v1", "Health/Check"))
	// Two services that the server could not describe if it were asked.
	peer.services = append(peer.services, "broken.Service", "odd.Service")
	url := peer.serve(t, reflectionV1)
	for _, s := range []*Selection{
		selection(t, nil, []string{"broken.*", "odd.Service/*"}),
		selection(t, []string{"a.S", "*.S/*"}, nil),
	} {
		loaded, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{Selection: s}).Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(loaded.Services, []string{"a.S"}) {
			t.Errorf("services %v", loaded.Services)
		}
	}
	// A glob that might be a declared name could mean any service.
	loaded, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{Selection: selection(t, []string{"some.tool"}, nil)}).Load(t.Context())
	if err != nil || len(loaded.Warnings) != 2 {
		t.Errorf("error %v, warnings %v, want one for each service that was asked for and not described", err, loaded.Warnings)
	}
}

func TestReflectionDoesNotWaitForAServerThatLingers(t *testing.T) {
	t.Parallel()
	peer := telling(rpcFile("a.proto", "a", "S/M"))
	peer.lingers = true
	url := peer.serve(t, reflectionV1)
	start := time.Now()
	limits := source.Limits{LoadTimeout: time.Hour} // for which the server lingers
	if _, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{Limits: limits}).Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < reflectionCloseWait || took > testkit.Limit() {
		t.Errorf("Load took %v, want about %v", took, reflectionCloseWait)
	}
}

func TestTheDemoBecomesTools(t *testing.T) {
	t.Parallel()
	server, err := demo.Start(t.Context(), demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close(context.Background()) })
	url := server.URL()
	loaded, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := mustBuild(t, BuildOptions{}, loaded)
	if len(c.Tools()) < 8 || len(c.Warnings()) > 0 {
		t.Errorf("%d tools, warnings %v", len(c.Tools()), c.Warnings())
	}
	destructive := 0
	for _, tool := range c.Tools() {
		if tool.Undescribed {
			t.Errorf("%s has lost its comment: %q", tool.Name, tool.Description)
		}
		if tool.Metadata.Destructive {
			destructive++
		}
	}
	if destructive == 0 {
		t.Error("no tool of the demo is marked destructive")
	}
}

func TestReflectionTakesAWellKnownFileThatTheServerLacks(t *testing.T) {
	t.Parallel()
	f := rpcFile("a.proto", "a", "S/M")
	f.Dependency = []string{"google/protobuf/empty.proto"}
	f.Service[0].Method[0].InputType = new(".google.protobuf.Empty")
	url := telling(f).serve(t, reflectionV1)
	loaded, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := mustBuild(t, BuildOptions{}, loaded)
	if !hasWarning(c, "does not serve google/protobuf/empty.proto") {
		t.Errorf("warnings %v", c.Warnings())
	}
}

// TestReflectionFailures has one row for every way in which a server can fail, lie or send too much. Each is an error
// that names the server, the step and the cause.
func TestReflectionFailures(t *testing.T) {
	t.Parallel()
	needsB := rpcFile("a.proto", "a", "S/M")
	needsB.Dependency = []string{"b.proto"}
	usesB := rpcFile("a.proto", "a", "S/M")
	usesB.Dependency = []string{"b.proto"}
	usesB.Service[0].Method[0].InputType = new(".b.In")
	other := rpcFile("a.proto", "a", "S/M", "S/N")
	for _, tc := range []struct {
		name   string
		peer   func() *scripted
		limits source.Limits
		step   string
		want   string
	}{
		{
			name: "no services at all", peer: func() *scripted { return newScripted() },
			step: "list services", want: "no services are registered",
		},
		{
			name: "only infrastructure", peer: func() *scripted { return newScripted("grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection") },
			step: "list services", want: "no callable services: grpc.health.v1.Health, grpc.reflection.v1.ServerReflection are infrastructure",
		},
		{
			name: "a name that is none", peer: func() *scripted { return newScripted("a b\nc") },
			step: "list services", want: `lists "a b?c", which is not a service name`,
		},
		{
			name: "too many services", peer: func() *scripted { return newScripted("a.A", "a.B", "a.C") },
			limits: source.Limits{MaxServices: 2}, step: "list services", want: "3 services, more than the limit of 2",
		},
		{
			name: "listed, but not found", peer: func() *scripted { return newScripted("a.S") },
			step: "find a.S", want: "not_found: nothing known of a.S",
		},
		{
			name: "listed, answered without a file", peer: func() *scripted {
				s := newScripted("a.S")
				s.symbols["a.S"] = []*descriptorpb.FileDescriptorProto{}
				return s
			},
			step: "find a.S", want: "answered with no file",
		},
		{
			name: "listed, answered with another service's file", peer: func() *scripted {
				s := newScripted("a.S")
				s.symbols["a.S"] = []*descriptorpb.FileDescriptorProto{rpcFile("b.proto", "b", "S/M")}
				return s
			},
			step: "find a.S", want: "answered with b.proto, which does not define this service (--exclude a.S omits it)",
		},
		{
			name: "an imported file is missing", peer: func() *scripted { return telling(usesB) },
			step: "complete a.proto", want: "no file that the server has defines .b.In",
		},
		{
			name: "one name, two files", peer: func() *scripted {
				s := telling(needsB)
				s.files["b.proto"] = []*descriptorpb.FileDescriptorProto{rpcFile("b.proto", "b"), other}
				return s
			},
			step: "fetch file b.proto", want: "two different files as a.proto",
		},
		{
			name: "a file without a name", peer: func() *scripted {
				s := newScripted("a.S")
				s.symbols["a.S"] = []*descriptorpb.FileDescriptorProto{{}}
				return s
			},
			step: "find a.S", want: "a file without a name",
		},
		{
			name: "a file that is none", peer: func() *scripted {
				s := newScripted("a.S")
				s.reply = appendBytes(appendBytes(nil, replyServices, appendBytes(nil, servicesEntry, appendBytes(nil, serviceName, []byte("a.S")))),
					replyFiles, appendBytes(nil, filesFile, []byte{0x0a, 0xff}))
				return s
			},
			step: "find a.S", want: "cannot be decoded",
		},
		{
			name: "a reply that is none", peer: func() *scripted { s := newScripted(); s.reply = []byte{0xff}; return s },
			step: "list services", want: "not a reflection response",
		},
		{
			name: "a reply to another question", peer: func() *scripted { s := newScripted(); s.reply = []byte{}; return s },
			step: "list services", want: "does not match the request",
		},
		{
			name: "too many files", peer: func() *scripted { return telling(rpcFile("a.proto", "a", "S/M"), rpcFile("b.proto", "b", "S/M")) },
			limits: source.Limits{MaxFiles: 1}, step: "find b.S", want: "more than 1 files",
		},
		{
			name: "too many bytes", peer: func() *scripted { return telling(rpcFile("a.proto", "a", "S/M"), rpcFile("b.proto", "b", "S/M")) },
			limits: source.Limits{MaxBytes: 100}, step: "find b.S", want: "more than 100 bytes",
		},
		{
			name: "a message that is too large", peer: func() *scripted {
				return telling(rpcFile("a.proto", "a", "S/"+strings.Repeat("M", 1000)))
			},
			limits: source.Limits{MaxBytes: 100}, step: "find a.S", want: "resource_exhausted",
		},
		{
			name: "permission denied", peer: func() *scripted {
				s := newScripted("a.S")
				s.stop["list"] = connect.NewError(connect.CodePermissionDenied, errors.New("not for you"))
				return s
			},
			step: "list services", want: "permission_denied: not for you",
		},
		{
			name: "broken off in the middle", peer: func() *scripted {
				s := telling(rpcFile("a.proto", "a", "S/M"))
				s.stop["symbol a.S"] = connect.NewError(connect.CodeUnavailable, errors.New("going away"))
				return s
			},
			step: "find a.S", want: "unavailable: going away",
		},
		{
			name: "broken off while a file is fetched", peer: func() *scripted {
				s := telling(needsB)
				s.stop["file b.proto"] = connect.NewError(connect.CodeInternal, errors.New("disk full"))
				return s
			},
			step: "fetch file b.proto", want: "internal: disk full",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			url := tc.peer().serve(t, reflectionV1)
			loaded, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{Limits: tc.limits}).Load(t.Context())
			got := asError[*source.Error](t, err)
			if loaded != nil || got.Permanent || got.Source != "reflection at "+url {
				t.Errorf("loaded %v, permanent %v, source %s", loaded, got.Permanent, got.Source)
			}
			if !strings.HasPrefix(got.Step, tc.step) {
				t.Errorf("step %q, want %q", got.Step, tc.step)
			}
			if !strings.Contains(got.Cause.Error(), tc.want) {
				t.Errorf("cause %q, want it to say %q", got.Cause, tc.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has more than one line: %q", err)
			}
		})
	}
}

func TestReflectionWithoutAPeer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, url, want string
	}{
		{"no listener", "http://" + testkit.Dead(t), "connection refused"},
		{"no reflection", serveH2C(t, http.NewServeMux()), "neither v1 nor v1alpha; register it there, or set --descriptors"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := source.NewReflection(tc.url, dialTo(t, tc.url), source.ReflectionOptions{}).Load(t.Context())
			if got := asError[*source.Error](t, err); got.Step != "list services" || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want step list services and %q", err, tc.want)
			}
		})
	}
	t.Run("HTTP/1.1 only", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.NewServeMux())
		t.Cleanup(server.Close)
		_, err := source.NewReflection(server.URL, dialTo(t, server.URL), source.ReflectionOptions{}).Load(t.Context())
		asError[*source.Error](t, err)
	})
	t.Run("no endpoint", func(t *testing.T) {
		t.Parallel()
		cause := errors.New("no protocol found")
		_, err := source.NewReflection("grpc://u:secret@host:1", func(context.Context) (source.Endpoint, error) { return source.Endpoint{}, cause }, source.ReflectionOptions{}).Load(t.Context())
		if got := asError[*source.Error](t, err); got.Step != "connect" || !errors.Is(err, cause) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v", err)
		}
	})
}

func TestReflectionGivesUpAtTheDeadline(t *testing.T) {
	t.Parallel()
	for _, question := range []string{"list", "symbol a.S", "file b.proto"} {
		t.Run(question, func(t *testing.T) {
			t.Parallel()
			f := rpcFile("a.proto", "a", "S/M")
			f.Dependency = []string{"b.proto"}
			peer := telling(f)
			peer.hang[question] = make(chan struct{})
			url := peer.serve(t, reflectionV1)
			_, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{Limits: source.Limits{LoadTimeout: 100 * time.Millisecond}}).Load(t.Context())
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no complete response within 100ms") {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("the caller's", func(t *testing.T) {
		t.Parallel()
		peer := newScripted("a.S")
		peer.hang["list"] = make(chan struct{})
		url := peer.serve(t, reflectionV1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if _, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{}).Load(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's", err)
		}
	})
}

// TestForeignExtensionUnderOurNumber guards against decoding a file with this process's extensions: 50717 is from the
// range that anyone may use, and a string there is not decodable as our message.
func TestForeignExtensionUnderOurNumber(t *testing.T) {
	t.Parallel()
	f := rpcFile("a.proto", "a", "S/M")
	f.Service[0].Method[0].Options = &descriptorpb.MethodOptions{}
	f.GetService()[0].GetMethod()[0].GetOptions().ProtoReflect().SetUnknown(appendBytes(nil, 50717, []byte("orders")))
	url := telling(f).serve(t, reflectionV1)
	loaded, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	toolOf(t, mustBuild(t, BuildOptions{}, loaded), "s.m")
}
