// SPDX-License-Identifier: Apache-2.0

package conformance

import "slices"

// Reasons that hold for more than one row.
const (
	noEnvelope  = "an RPC has no JSON-RPC envelope: its own protocol carries the call"
	noIDs       = "an RPC has no request id that a caller chooses"
	formInside  = "the form is a matter of params: the envelope around it is that of /rpc"
	noMessages  = "the admin listener takes no such messages"
	noHeaders   = "only MCP over Streamable HTTP says in headers what the body says"
	noPage      = "a web page cannot reach a pipe"
	noRevisions = "only MCP has revisions; what is not served is unimplemented, which is tested"
	atItsPath   = "a typed call is addressed by its path, and its arguments are the request itself"
	fromBehind  = "it is no input of a caller: it comes from behind the sidecar, and every edge shows the same catalog"
	fromBelow   = "it is no input of a caller: it comes from the machine, and every edge goes on"
	atTheStart  = "no edge is open yet"
	later       = "OAuth follows: there are no JWT yet, and the static tokens' own test is TestAuthenticationOnEveryEdge"
)

// badRows is the table.
func badRows() []badRow {
	return slices.Concat(readingRows(), callingRows(), behindRows())
}

// readingRows are those of bytes and messages.
func readingRows() []badRow {
	return []badRow{
		{title: rowJSON, held: []held{
			{[]edge{mcpModern, mcpLegacy, rpcCanonical, stdio}, []string{"conformance/envelope_test.go TestBadEnvelopesGetTheSameError", "conformance/hostile_test.go TestMegabytesOfBrackets"}},
			{[]edge{mcpOldest}, []string{"conformance/badinput_message_test.go TestBadEnvelopesInASessionWithBatches"}},
			{[]edge{toolJSON, toolBinary}, []string{"internal/edge/connectapi/question_test.go TestFreeFormPayloadsAreChecked"}},
			{[]edge{admin}, []string{"internal/server/admin/trust_test.go TestTrustRefusesBadInput"}},
		}},
		{title: rowEnvelope, held: []held{
			{[]edge{mcpModern, mcpLegacy, rpcCanonical, stdio}, []string{"conformance/envelope_test.go TestBadEnvelopesGetTheSameError", "conformance/bounds_test.go TestBatches"}},
			{[]edge{mcpOldest}, []string{"conformance/badinput_message_test.go TestBadEnvelopesInASessionWithBatches", "internal/edge/mcphttp/legacybatch_test.go TestBatches"}},
			{[]edge{toolBinary}, []string{"conformance/exchange_test.go TestExchangeStream", "internal/edge/connectapi/exchange_test.go TestFaultsOfOneMessageDoNotEndTheStream"}},
		}, without: []without{
			{[]edge{rpcMessage}, formInside},
			{[]edge{toolJSON, typedJSON, typedWire}, noEnvelope},
			{[]edge{admin}, noMessages},
		}},
		{title: rowIDs, held: []held{
			{[]edge{mcpModern, mcpLegacy, rpcCanonical, rpcMessage, stdio, toolBinary}, []string{"conformance/numbers_test.go TestLargeIDsAreEchoed"}},
			{[]edge{mcpOldest}, []string{"conformance/badinput_message_test.go TestBadEnvelopesInASessionWithBatches"}},
		}, without: []without{
			{[]edge{toolJSON, typedJSON, typedWire}, noIDs},
			{[]edge{admin}, noMessages},
		}},
		{title: rowFlight, held: []held{
			{[]edge{stdio}, []string{"conformance/cancel_test.go TestDuplicateIDs", "internal/edge/stdio/serve_test.go TestOfTwoEqualIDsInFlightTheSecondIsRefused"}},
			{[]edge{toolBinary}, []string{"conformance/exchange_test.go TestExchangeStream", "internal/edge/connectapi/exchange_test.go TestExchangeKeepsIDsApartAndCancels"}},
			{[]edge{mcpModern}, []string{"internal/edge/mcphttp/listen_test.go TestOneIDOnTwoConnectionsIsTwoRequests"}},
			{[]edge{mcpLegacy}, []string{"internal/edge/mcphttp/legacycall_test.go TestAnIDTwiceInOneSession", "internal/edge/mcphttp/legacystress_test.go TestSameIDsInEveryEraOverOneConnection"}},
			{[]edge{mcpOldest}, []string{"internal/edge/mcphttp/legacybatch_test.go TestBatches"}},
			{[]edge{rpcCanonical}, []string{"internal/edge/rpchttp/handler_test.go TestTwoCallersWithOneIDNeverMeet", "conformance/bounds_test.go TestBatches"}},
			{[]edge{rpcMessage}, []string{"conformance/identity_test.go TestEachAnswerReachesItsCaller"}},
		}, without: []without{
			{[]edge{toolJSON, typedJSON, typedWire}, noIDs},
			{[]edge{admin}, noMessages},
		}},
		{title: rowHeaders, held: []held{
			{[]edge{mcpModern}, []string{"internal/edge/mcphttp/header_test.go TestHeadersRepeatTheBody", "internal/edge/mcphttp/param_test.go TestHeadersRepeatMarkedArguments"}},
			{[]edge{mcpLegacy, mcpOldest}, []string{"internal/edge/mcphttp/legacysession_test.go TestVersionHeadersInASession", "internal/edge/mcphttp/legacysession_test.go TestTwoSessionIDsInOneRequest"}},
		}, without: []without{
			{slices.Concat(overRPC(), overProtobuf(), []edge{stdio, admin}), noHeaders},
		}},
		{title: rowProtocol, held: []held{
			{slices.Concat(overMCP(), []edge{rpcCanonical, stdio}, overProtobuf()), []string{"conformance/badinput_message_test.go TestUnknownVersionsAndMethods"}},
			{[]edge{admin}, []string{"internal/server/admin/admin_test.go TestUnknownPagesNameTheKnownOnes", "internal/server/admin/admin_test.go TestMethods"}},
		}, without: []without{
			{[]edge{rpcMessage}, formInside},
		}},
		{title: rowPages, held: []held{
			{slices.Concat(overHTTP(), []edge{admin}), []string{"conformance/guard_test.go TestForeignPagesAreRefused"}},
		}, without: []without{
			{[]edge{stdio}, noPage},
		}},
		{title: rowBodies, held: []held{
			{slices.Concat(overMCP(), overRPC()), []string{"conformance/bounds_test.go TestMediaTypesAndMethods", "conformance/bounds_test.go TestLargeBodiesAreRefused"}},
			{[]edge{stdio}, []string{"conformance/bounds_test.go TestLargeLinesAreRefused"}},
			{overProtobuf(), []string{"conformance/badinput_body_test.go TestBodiesOfRPCs", "conformance/bounds_test.go TestLargeBodiesAreRefused"}},
			{[]edge{admin}, []string{"internal/edge/connectapi/admin_test.go TestOversizeRegistrationsAreRefused", "internal/server/admin/trust_test.go TestTrustRefusesBadInput"}},
		}},
	}
}

// callingRows are those of calls and callers.
func callingRows() []badRow {
	return []badRow{
		{title: rowNumbers, held: []held{
			{slices.Concat(overMessages(), []edge{toolBinary}), []string{"conformance/arguments_test.go TestWrongArgumentsNameTheirPlace", "conformance/hostile_test.go TestMegabytesOfNonsense"}},
			{[]edge{admin}, []string{"internal/catalog/registration_test.go TestInvalidRegistrationsNameEveryFault"}},
		}},
		{title: rowArguments, held: []held{
			{overRPC(), []string{"conformance/arguments_test.go TestNames"}},
			{[]edge{toolJSON, toolBinary}, []string{"internal/edge/connectapi/repair_test.go TestArgumentsInAString"}},
		}, without: []without{
			{[]edge{typedWire}, atItsPath},
			{[]edge{admin}, noMessages},
		}},
		{title: rowNames, held: []held{
			{forCallers(), []string{"conformance/badinput_message_test.go TestAHiddenToolIsAnUnknownOneAtEveryEntryPoint"}},
		}, without: []without{
			{[]edge{admin}, noMessages},
		}},
		{title: rowTokens, without: []without{{everyEdge(), later}}},
		{title: rowOthers, held: []held{
			{[]edge{mcpModern, mcpLegacy, rpcCanonical, rpcMessage, toolJSON, toolBinary, typedJSON, typedWire}, []string{"cmd/sidecar/auth_test.go TestAuthenticationOnEveryEdge", "internal/server/matrix_test.go TestMatrixOfLists"}},
			{[]edge{mcpModern, stdio}, []string{
				"bridge/blackbox/list_test.go TestACursorIsForOneCallerAndOneListAndATime", "bridge/blackbox/state_test.go TestARequestStateIsForOneCallerAndOneRequestAndATime",
				"bridge/blackbox/task_test.go TestATaskOfTheSidecarIsItsCallersOwn",
			}},
			{[]edge{mcpLegacy, mcpOldest}, []string{"internal/edge/mcphttp/legacysession_test.go TestASessionOfSomebodyElse"}},
			{[]edge{toolBinary}, []string{"internal/edge/connectapi/task_test.go TestTasksOfABackend"}},
		}, without: []without{
			{[]edge{admin}, "operators have no scopes yet: every client on loopback is one"},
		}},
		{title: rowSlow, held: []held{
			{overHTTP(), []string{"cmd/sidecar/limits_test.go TestEveryLimitIsMet", "internal/edge/httpbody/timeout_test.go TestASlowBodyMeetsTheTimeout"}},
			{slices.Concat([]edge{mcpModern}, overRPC(), overProtobuf()), []string{"conformance/cancel_test.go TestLeavingCancels"}},
			{[]edge{mcpLegacy, mcpOldest}, []string{"conformance/cancel_test.go TestLegacyDisconnectDoesNotCancel"}},
			{[]edge{stdio}, []string{"conformance/cancel_test.go TestStdioCancellation", "internal/edge/stdio/end_test.go TestAPeerThatClosesItsEndEndsTheConversation"}},
			{[]edge{admin}, []string{"internal/server/admin/drain_test.go TestDrainIsBegunAndWaitedFor"}},
		}},
	}
}

// behindRows are those of what callers do not send.
func behindRows() []badRow {
	return []badRow{
		{title: rowBackend, held: []held{
			{forCallers(), []string{
				"conformance/errors_test.go TestBackendErrorsKeepTheirDetails", "conformance/bounds_test.go TestDeadline", "conformance/startup_test.go TestStartupBeforeTheBackend",
				"bridge/blackbox/output_test.go TestOutputIsChecked", "bridge/blackbox/output_test.go TestAResultOverItsLimitIsRefused",
			}},
			{overHTTP(), []string{"conformance/startup_test.go TestBackendKilledInMidCall", "conformance/faults/faults_test.go TestFaults"}},
		}, without: []without{
			{[]edge{admin}, "it calls no backend; /readyz says how it is, in TestStartupBeforeTheBackend"},
		}},
		{title: rowReflect, held: []held{
			{[]edge{admin}, []string{
				"internal/catalog/source_reflection_test.go TestReflectionFailures", "internal/catalog/source_reflection_test.go TestReflectionTakesAWellKnownFileThatTheServerLacks",
				"internal/catalog/live_test.go TestTheLastGoodCatalogStays", "conformance/startup_test.go TestStartupBeforeTheBackend",
			}},
		}, without: []without{
			{forCallers(), fromBehind},
		}},
		{title: rowInjection, held: []held{
			{slices.Concat(overMessages(), overProtobuf()), []string{
				"bridge/blackbox/metadata_test.go TestNoHeaderOfACallerEndsACall", "internal/trail/line_test.go TestTexts", "bridge/blackbox/list_test.go TestEveryReplyIsOneLine",
			}},
		}, without: []without{
			{[]edge{admin}, noMessages},
		}},
		{title: rowDisk, held: []held{
			{[]edge{stdio}, []string{"conformance/drain_test.go TestClosedStdout", "internal/edge/stdio/end_test.go TestErrorsOfThePipes"}},
			{[]edge{admin}, []string{
				"cmd/sidecar/metrics_test.go TestNoFolderForRecordsIsAMetric", "internal/trail/folder_test.go TestFolderThatCannotBeWritten",
				"internal/trail/disk_linux_test.go TestDevFull", "internal/trail/disk_test.go TestFullDiskRecovers",
			}},
		}, without: []without{
			{overHTTP(), fromBelow},
		}},
		{title: rowConfig, held: []held{
			{[]edge{admin}, []string{"internal/config/load_test.go TestTenFaults", "cmd/sidecar/testdata/script/config_faults.txtar"}},
		}, without: []without{
			{forCallers(), atTheStart},
		}},
	}
}
