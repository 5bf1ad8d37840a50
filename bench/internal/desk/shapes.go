// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"fmt"
	"strings"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
)

// Consignments is a page of n full orders with many parcels, 1.65 KB of JSON each: 2,000 orders, which are the most that a
// page may have, are 3.3 MB.
func Consignments(n int) *Page {
	orders := full(n)
	for i, order := range orders {
		for k := range 17 {
			order.Parcels = append(order.Parcels, &benchv1.Parcel{Contents: "spare parts of a pump", WeightKg: 12.25, ValueCents: int64(89900 + i + k)})
		}
	}
	return newPage(orders)
}

// Letters is a page of n orders of 8 KB each, nearly all of it text. What [Consignments] makes reaches the bound on the
// values of a document at 4 MB; these reach 16 MB far below it.
func Letters(n int) *Page {
	text := strings.Repeat("The boat leaves with the tide, and the \"spare parts\" are on it. ", 118)
	orders := make([]*benchv1.Order, 0, n)
	for i := range n {
		orders = append(orders, &benchv1.Order{Id: 1_000_001 + uint64(i), Parcels: []*benchv1.Parcel{{Contents: text}}})
	}
	return newPage(orders)
}

// Maps is a page of n orders with twenty labels each, whose texts have something to escape every few bytes: 1.1 KB of
// JSON an order.
func Maps(n int) *Page {
	orders := make([]*benchv1.Order, 0, n)
	for i := range n {
		labels := make(map[string]string, 20)
		for k := range 20 {
			labels[fmt.Sprintf("zone \"%02d\"", k)] = "a\\b\t\"" + fmt.Sprint(i+k) + "\"\nsouth"
		}
		orders = append(orders, &benchv1.Order{Id: 1_000_001 + uint64(i), Labels: labels})
	}
	return newPage(orders)
}
