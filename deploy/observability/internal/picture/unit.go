// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"math"
	"strconv"
)

// Format writes a value in one of the units of Grafana that the dashboards use.
func Format(v float64, unit string) string {
	switch unit {
	case "s":
		return seconds(v)
	case "percentunit":
		return digits(v*100) + " %"
	case "bytes":
		return scaled(v, 1024, "B", "KiB", "MiB", "GiB")
	case "reqps", "ops":
		return digits(v) + "/s"
	case "bool_yes_no":
		if v != 0 {
			return "yes"
		}
		return "no"
	default:
		return scaled(v, 1000, "", "k", "M", "G")
	}
}

func seconds(v float64) string {
	switch abs := math.Abs(v); {
	case v == 0:
		return "0 s"
	case abs < 1e-3:
		return digits(v*1e6) + " µs"
	case abs < 1:
		return digits(v*1e3) + " ms"
	case abs < 120:
		return digits(v) + " s"
	case abs < 7200:
		return digits(v/60) + " min"
	case abs < 48*3600:
		return digits(v/3600) + " h"
	default:
		return digits(v/86400) + " d"
	}
}

func scaled(v, base float64, units ...string) string {
	i := 0
	for ; math.Abs(v) >= base && i < len(units)-1; i++ {
		v /= base
	}
	if units[i] == "" {
		return digits(v)
	}
	return digits(v) + " " + units[i]
}

// digits writes three digits that matter.
func digits(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case abs >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}
