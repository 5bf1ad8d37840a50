// SPDX-License-Identifier: Apache-2.0

package operationtest

import (
	"fmt"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Videos sets how many videos there are to be listed.
func (s *Server) Videos(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.videos = n
}

// ordinaryPage is how many videos a page has where the caller does not say.
const ordinaryPage = 10

// list lists videos in pages. The token of a page is the number of its first video.
func (s *Server) list(in *dynamicpb.Message) (proto.Message, error) {
	fields := in.Descriptor().Fields()
	size, first := int(in.Get(fields.ByName("page_size")).Int()), 0
	if size <= 0 {
		size = ordinaryPage
	}
	if token := in.Get(fields.ByName("page_token")).String(); token != "" {
		var err error
		if first, err = strconv.Atoi(token); err != nil {
			return nil, status.Error(codes.InvalidArgument, "bad page token")
		}
	}
	s.mu.Lock()
	total := s.videos
	s.mu.Unlock()
	out := s.message("ListVideosResponse", map[protoreflect.Name]any{"total_size": int32(total)})
	videos := out.Mutable(out.Descriptor().Fields().ByName("videos")).List()
	next := min(first+size, total)
	for i := first; i < next; i++ {
		videos.Append(protoreflect.ValueOfMessage(s.message("Video", map[protoreflect.Name]any{"name": fmt.Sprint("videos/", i), "seconds": int32(i)})))
	}
	if next < total {
		out.Set(out.Descriptor().Fields().ByName("next_page_token"), protoreflect.ValueOfString(strconv.Itoa(next)))
	}
	return out, nil
}
