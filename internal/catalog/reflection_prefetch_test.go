// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"google.golang.org/protobuf/types/descriptorpb"
)

// servicesApart are files with a service each.
func servicesApart(n int) []*descriptorpb.FileDescriptorProto {
	var files []*descriptorpb.FileDescriptorProto
	for i := range n {
		files = append(files, rpcFile(fmt.Sprintf("f%d.proto", i), fmt.Sprintf("p%d", i), "S/M"))
	}
	return files
}

// A server that answers nothing before it has been asked for a number of services is asked for them: a round trip is
// not waited for before the next begins.
func TestReflectionPrefetches(t *testing.T) {
	t.Parallel()
	server := telling(servicesApart(3*maxPrefetch + 1)...)
	mux := http.NewServeMux()
	mux.Handle(reflectionV1, connect.NewBidiStreamHandler(reflectionV1, func(ctx context.Context, stream *connect.BidiStream[frame, frame]) error {
		listing, err := stream.Receive()
		if err != nil {
			return err
		}
		questions := []*frame{listing}
		for len(questions) > 0 {
			for _, q := range questions {
				reply, err := server.answer(ctx, q.body)
				if err != nil {
					return err
				}
				if err := stream.Send(&frame{reply}); err != nil {
					return err
				}
			}
			questions = questions[:0]
			for len(questions) < maxPrefetch {
				q, err := stream.Receive()
				if err != nil {
					break // the client has no more
				}
				questions = append(questions, q)
				server.mu.Lock()
				left := len(server.services) + 1 - len(server.seen) - len(questions)
				server.mu.Unlock()
				if left == 0 {
					break
				}
			}
		}
		return nil
	}, connect.WithCodec(frameCodec{})))
	loaded, err := source.NewReflection("test", dialTo(t, serveH2C(t, mux)), source.ReflectionOptions{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Files) != len(server.services) || len(loaded.Services) != len(server.services) {
		t.Errorf("%d files and %d services, want %d", len(loaded.Files), len(loaded.Services), len(server.services))
	}
}

// A failure is reported for the question that it was about, however many are on their way behind it. A stream that breaks off
// fails the load; a service that is not described is omitted.
func TestReflectionPrefetchFailsWhereItWould(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(*scripted)
		want  string
		isAll bool
	}{
		"unknown": {spoil: func(s *scripted) { delete(s.symbols, "p2.S") }, want: "not_found: nothing known of p2.S"},
		"broken": {spoil: func(s *scripted) {
			s.stop["symbol p2.S"] = connect.NewError(connect.CodeInternal, errors.New("went wrong"))
		}, want: "went wrong", isAll: true},
		"unanswers": {spoil: func(s *scripted) { s.symbols["p2.S"] = []*descriptorpb.FileDescriptorProto{} }, want: "answered with no file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := telling(servicesApart(9)...)
			tc.spoil(server)
			loaded, err := source.NewReflection("test", dialTo(t, server.serve(t, reflectionV1)), source.ReflectionOptions{}).Load(t.Context())
			if tc.isAll {
				var failed *source.Error
				if !errors.As(err, &failed) || failed.Step != "find p2.S" || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if w := loaded.Warnings; len(loaded.Services) != 8 || len(w) != 1 || w[0].Subject != "p2.S" || !strings.Contains(w[0].Text, tc.want) {
				t.Errorf("services %v, warnings %v", loaded.Services, w)
			}
		})
	}
}

// The older service is asked where the newer one is unknown, for many services too.
func TestReflectionPrefetchOverTheOlderService(t *testing.T) {
	t.Parallel()
	server := telling(servicesApart(2 * maxPrefetch)...)
	loaded, err := source.NewReflection("test", dialTo(t, server.serve(t, reflectionV1Alpha)), source.ReflectionOptions{}).Load(t.Context())
	if err != nil || len(loaded.Files) != 2*maxPrefetch {
		t.Errorf("%v, %v", loaded, err)
	}
}
