// SPDX-License-Identifier: Apache-2.0

package errmap

// Limit is the name of a limit of the configuration: its field in the message Limits.
type Limit string

// The limits that an error can be about and that are not counted elsewhere: the owner of
// one of the others, such as a queue or a rate, counts for itself.
const (
	LimitMessageBytes Limit = "max_message_bytes"
	LimitJSONDepth    Limit = "max_json_depth"
	LimitIDBytes      Limit = "max_id_bytes"
	LimitBatchEntries Limit = "max_batch_entries"
	LimitResultBytes  Limit = "max_result_bytes"
	LimitResultItems  Limit = "max_result_items"
	LimitInputItems   Limit = "max_input_items"
	LimitStreams      Limit = "max_streams"
	LimitSessions     Limit = "max_sessions"
	LimitTasks        Limit = "max_tasks"
	LimitBodyTime     Limit = "read_body_timeout"
	LimitCatalogWait  Limit = "catalog_wait"
	LimitPipelined    Limit = "max_pipelined_requests"
)

// Limits returns every Limit.
func Limits() []Limit {
	return []Limit{
		LimitMessageBytes, LimitJSONDepth, LimitIDBytes, LimitBatchEntries, LimitResultBytes, LimitResultItems, LimitInputItems,
		LimitStreams, LimitSessions, LimitTasks, LimitBodyTime, LimitCatalogWait, LimitPipelined,
	}
}

// Over names the limit that was exceeded. It is counted in metrics and not shown.
func Over(l Limit) Option { return func(e *Error) { e.Limit = l } }
