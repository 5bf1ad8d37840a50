// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"testing"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func TestFieldPath(t *testing.T) {
	t.Parallel()
	order := (&demov1.PlaceOrderRequest{}).ProtoReflect().Descriptor()
	distances := (&demov1.ReportPositionsResponse{}).ProtoReflect().Descriptor()
	call := (&outriggerv1.ToolCall{}).ProtoReflect().Descriptor()
	for _, tc := range []struct {
		in            protoreflect.MessageDescriptor
		pointer, want string
	}{
		{order, "", ""},
		{order, "/destination/stop_id", "destination.stopId"},
		{order, "/parcels", "parcels"},
		{order, "/parcels/0/weight_kg", "parcels[0].weightKg"},
		{order, "/labels/0", `labels["0"]`},
		{order, "/labels/a~1b~0\"", `labels["a/b~\""]`},
		{order, "/window/notAfter/seconds", "window.notAfter.seconds"},
		{order, "/colour", "colour"},
		{order, "/no such field", `["no such field"]`},
		{order, "/[a.b.ext]/x", "[a.b.ext].x"},
		{distances, "/distance_km/7", "distanceKm[7]"},
		{call, "/input_responses/a b/nothing", `input_responses["a b"].nothing`},
		{nil, "/items/3/vehicleId", "items[3].vehicleId"},
		{nil, "/0", "[0]"},
		{nil, "/a b/-1", `["a b"]["-1"]`},
	} {
		if got := fieldPath(tc.in, tc.pointer); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.pointer, got, tc.want)
		}
	}
}

func TestReasonOf(t *testing.T) {
	t.Parallel()
	for keyword, want := range map[string]string{
		"": "", "required": "REQUIRED", "minLength": "MIN_LENGTH", "string.email": "STRING_EMAIL", "idempotency-key": "IDEMPOTENCY_KEY",
		"shop.order.v1.ends.": "SHOP_ORDER_V1_ENDS", "7up": "UP", "maxUTF": "MAX_UTF",
		"a.very.long.name.of.a.rule.that.goes.on.and.on.and.on.until.it.ends": "A_VERY_LONG_NAME_OF_A_RULE_THAT_GOES_ON_AND_ON_AND_ON_UNTIL_IT",
	} {
		if got := reasonOf(keyword); got != want {
			t.Errorf("%q: got %q, want %q", keyword, got, want)
		}
	}
}
