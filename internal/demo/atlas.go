// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"math"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// earthRadiusKm is the mean radius of the Earth (IUGG).
const earthRadiusKm = 6371.0088

// place is a point with a name and an island.
type place struct {
	name     string
	island   string
	position *demov1.Position
}

// atlas is the map with its indexes. It never changes.
type atlas struct {
	root  *demov1.Area
	stops map[int64]place
	quays map[string]place // by island
}

func newAtlas(root *demov1.Area) *atlas {
	a := &atlas{root: root, stops: make(map[int64]place), quays: make(map[string]place)}
	for _, island := range root.GetAreas() {
		a.index(island, island.GetName())
	}
	return a
}

// index enters the stops of an area. The first stop of an island is its quay.
func (a *atlas) index(area *demov1.Area, island string) {
	for _, s := range area.GetStops() {
		p := place{name: s.GetName(), island: island, position: s.GetPosition()}
		a.stops[s.GetId()] = p
		if _, ok := a.quays[island]; !ok {
			a.quays[island] = p
		}
	}
	for _, inner := range area.GetAreas() {
		a.index(inner, island)
	}
}

// islandAt returns the island whose quay is nearest.
func (a *atlas) islandAt(p *demov1.Position) string {
	nearest, best := "", math.Inf(1)
	for island, quay := range a.quays {
		if d := distanceKm(p, quay.position); d < best {
			nearest, best = island, d
		}
	}
	return nearest
}

// distanceKm is the great-circle distance (haversine).
func distanceKm(from, to *demov1.Position) float64 {
	const radians = math.Pi / 180
	lat1, lat2 := from.GetLatitude()*radians, to.GetLatitude()*radians
	dLat, dLon := lat2-lat1, (to.GetLongitude()-from.GetLongitude())*radians
	h := math.Pow(math.Sin(dLat/2), 2) + math.Cos(lat1)*math.Cos(lat2)*math.Pow(math.Sin(dLon/2), 2)
	// Rounding can push h past 1 for points on opposite sides, where Asin has no value.
	return 2 * earthRadiusKm * math.Asin(math.Sqrt(math.Min(1, h)))
}
