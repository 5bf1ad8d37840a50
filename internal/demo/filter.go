// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"strings"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

const (
	// maxFilterDepth bounds how deep conditions nest. Eight levels are not written by hand.
	maxFilterDepth = 8
	// maxFilterSize bounds the conditions in one filter, because each of them is tried on every order.
	maxFilterSize = 100
)

// checkFilter refuses filters that are too deep or too large. The rules of the .proto file see one level only.
func checkFilter(filter *demov1.OrderFilter) error {
	size := 0
	var walk func(*demov1.OrderFilter, int) error
	walk = func(f *demov1.OrderFilter, depth int) error {
		size++
		if depth > maxFilterDepth {
			return badField("filter", fmt.Sprintf("conditions nest at most %d deep", maxFilterDepth))
		}
		if size > maxFilterSize {
			return badField("filter", fmt.Sprintf("at most %d conditions", maxFilterSize))
		}
		for _, nested := range nestedFilters(f) {
			if err := walk(nested, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if filter == nil {
		return nil
	}
	return walk(filter, 1)
}

func nestedFilters(f *demov1.OrderFilter) []*demov1.OrderFilter {
	switch c := f.GetCondition().(type) {
	case *demov1.OrderFilter_Not:
		return []*demov1.OrderFilter{c.Not}
	case *demov1.OrderFilter_All:
		return c.All.GetFilters()
	case *demov1.OrderFilter_Any:
		return c.Any.GetFilters()
	default:
		return nil
	}
}

// matches reports whether an order meets a condition. Every order meets an absent one.
func matches(f *demov1.OrderFilter, o *demov1.Order) bool {
	switch c := f.GetCondition().(type) {
	case *demov1.OrderFilter_Status:
		return o.GetStatus() == c.Status
	case *demov1.OrderFilter_VehicleId:
		return o.GetVehicleId().GetValue() == c.VehicleId
	case *demov1.OrderFilter_CustomerContains:
		return strings.Contains(strings.ToLower(o.GetCustomer()), strings.ToLower(c.CustomerContains))
	case *demov1.OrderFilter_HeavierThanKg:
		return weight(o) > c.HeavierThanKg
	case *demov1.OrderFilter_Label:
		value, ok := o.GetLabels()[c.Label.GetName()]
		return ok && value == c.Label.GetValue()
	case *demov1.OrderFilter_Not:
		return !matches(c.Not, o)
	case *demov1.OrderFilter_All:
		for _, nested := range c.All.GetFilters() {
			if !matches(nested, o) {
				return false
			}
		}
		return true
	case *demov1.OrderFilter_Any:
		for _, nested := range c.Any.GetFilters() {
			if matches(nested, o) {
				return true
			}
		}
		return false
	default:
		return true
	}
}
