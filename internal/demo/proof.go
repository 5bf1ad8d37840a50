// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"crypto/sha256"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// The picture's size in pixels: wide enough for a name, small enough for a log line.
const (
	proofWidth  = 160
	proofHeight = 48
)

// signature draws what the customer scribbled. The same order always gets the same scribble.
func signature(o *demov1.Order) (*demov1.DeliveryProof, error) {
	picture := image.NewPaletted(image.Rect(0, 0, proofWidth, proofHeight), color.Palette{color.White, color.Black})
	hand := rand.New(rand.NewPCG(o.GetId(), proofWidth)) //nolint:gosec // the same scribble every time is the point
	wobble, lean := 2+4*hand.Float64(), 0.2+0.5*hand.Float64()
	const steps = 40 * proofWidth // close enough that the line has no gaps
	for i := range steps {
		t := float64(i) / steps
		x := 8 + t*(proofWidth-24) + 7*math.Cos(t*wobble*14)
		y := proofHeight/2 + (0.8-lean*t)*16*math.Sin(t*wobble*9+lean)
		picture.SetColorIndex(int(x), int(y), 1)
		picture.SetColorIndex(int(x), int(y)+1, 1)
	}
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(out.Bytes())
	return &demov1.DeliveryProof{
		OrderId: o.GetId(), SignedBy: o.GetCustomer(), Image: out.Bytes(), MediaType: "image/png", Sha256: sum[:],
	}, nil
}
