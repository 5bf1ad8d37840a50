// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
)

// Goals of streams.
const (
	streamRatio = 1.5
	streamHeld  = 64 << 10
)

// Streams is what messages of streams cost.
type Streams struct {
	Head

	Rows                          []StreamsRow
	Rounds, Streams, Small, Large int
	// Open streams held Held bytes each.
	Open int
	Held float64
}

// StreamsRow is one kind of streams with messages of so many bytes, with one figure for each round.
type StreamsRow struct {
	Kind           string
	Bytes          int
	Sidecar, Proxy []StreamsFigure
}

// StreamsFigure is messages a second, and microseconds of the process in the middle for each.
type StreamsFigure struct{ Rate, CPU float64 }

func pickStreams(figures []StreamsFigure, get func(StreamsFigure) float64) series {
	var out series
	for _, f := range figures {
		out = append(out, get(f))
	}
	return out
}

func streamRate(f StreamsFigure) float64 { return f.Rate }
func streamCPU(f StreamsFigure) float64  { return f.CPU }

func (r *StreamsRow) ratio() series {
	return pickStreams(r.Sidecar, streamCPU).over(pickStreams(r.Proxy, streamCPU))
}

// Missed lists the goals that were missed.
func (s *Streams) Missed() []string {
	var out []string
	for i := range s.Rows {
		r := &s.Rows[i]
		if ratio := r.ratio(); ratio.median() > streamRatio {
			out = append(out, fmt.Sprintf("%s, %d bytes: %s times the empty proxy, want %.1f", r.Kind, r.Bytes, ratio.spread(), streamRatio))
		}
	}
	if s.Held > streamHeld {
		out = append(out, fmt.Sprintf("an open stream holds %.1f KiB, want %d", s.Held/1024, streamHeld>>10))
	}
	return out
}

// Markdown is the figures as a table.
func (s *Streams) Markdown() string {
	var b strings.Builder
	s.markdown(&b)
	fmt.Fprintf(&b, "%d streams at a time over gRPC; %s small or %s large messages each, the median of %d rounds and, in brackets, the least and the most.\n\n",
		s.Streams, count(s.Small), count(s.Large), s.Rounds)
	b.WriteString("| stream | bytes | messages/s | proxy | CPU µs/message | proxy | ratio | goal |\n|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for i := range s.Rows {
		r := &s.Rows[i]
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %.1f |\n", r.Kind, r.Bytes,
			pickStreams(r.Sidecar, streamRate).middle(), pickStreams(r.Proxy, streamRate).middle(),
			pickStreams(r.Sidecar, streamCPU).middle(), pickStreams(r.Proxy, streamCPU).middle(), r.ratio().spread(), streamRatio)
	}
	if s.Open > 0 {
		fmt.Fprintf(&b, "\n%s open streams at rest: %.1f KiB of memory each (RssAnon; goal: %d).\n", count(s.Open), s.Held/1024, streamHeld>>10)
	}
	return b.String()
}
