# SPDX-License-Identifier: Apache-2.0
"""gRPC's C-core, through Python.

It reads {ca, cases} from standard input and writes a line of JSON for each case; grpc_test.go says what their members
mean. Messages are bytes.
"""

import base64
import json
import sys
import time

import grpc


def run(channel, one):
    """Make one call and return its code, its details and how many bytes came back."""
    message = base64.b64decode(one["message"])
    metadata = [("authorization", "Bearer " + one["token"])] if one["token"] else []
    timeout, size = one["deadline_ms"] / 1000, 0
    try:
        if one["messages"] == 0:
            return 0, "", len(channel.unary_unary(one["path"])(message, metadata=metadata, timeout=timeout))
        call = channel.stream_stream(one["path"])(iter([message] * one["messages"]), metadata=metadata, timeout=timeout)
        time.sleep(one["wait_ms"] / 1000)
        for answer in call:
            size += len(answer)
        return 0, "", size
    except grpc.RpcError as error:
        return error.code().value[0], error.details(), size


def main():
    given = json.load(sys.stdin)
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    for one in given["cases"]:
        if one["tls"]:
            channel = grpc.secure_channel(one["address"], grpc.ssl_channel_credentials(given["ca"].encode()), options)
        else:
            channel = grpc.insecure_channel(one["address"], options)
        outcome = {"name": one["name"], "statuses": [], "bytes": 0, "error": ""}
        with channel:
            for _ in range(max(one["times"], 1)):
                code, details, size = run(channel, one)
                outcome["statuses"].append(code)
                outcome["bytes"] += size
                outcome["error"] = details
        print(json.dumps(outcome), flush=True)


main()
