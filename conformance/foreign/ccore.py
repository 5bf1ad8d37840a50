# SPDX-License-Identifier: Apache-2.0
"""A backend of C-core. Arguments: the descriptor set, and the files of a mutual TLS (CA, certificate, key), if any."""
import sys
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

with open(sys.argv[1], "rb") as f:
    files = descriptor_pb2.FileDescriptorSet.FromString(f.read())
pool = descriptor_pool.DescriptorPool()
for file in files.file:
    pool.Add(file)
factory = message_factory.MessageFactory(pool)
Word = factory.GetPrototype(pool.FindMessageTypeByName("foreign.v1.Word"))
Number = factory.GetPrototype(pool.FindMessageTypeByName("foreign.v1.Number"))


def echo(word, context):
    if word.text == "fail":
        context.abort(grpc.StatusCode.NOT_FOUND, "no such word")
    return word


def count(most, context):
    for value in range(1, most.value + 1):
        yield Number(value=value)


def total(numbers, context):
    return Number(value=sum(n.value for n in numbers))


def chat(words, context):
    yield from words


def kind(make, run, request, response):
    return make(run, request_deserializer=request.FromString, response_serializer=response.SerializeToString)


server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("foreign.v1.Kinds", {
    "Echo": kind(grpc.unary_unary_rpc_method_handler, echo, Word, Word),
    "Count": kind(grpc.unary_stream_rpc_method_handler, count, Number, Number),
    "Sum": kind(grpc.stream_unary_rpc_method_handler, total, Number, Number),
    "Chat": kind(grpc.stream_stream_rpc_method_handler, chat, Word, Word),
}),))
if len(sys.argv) > 2:
    ca, cert, key = (open(name, "rb").read() for name in sys.argv[2:5])
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)], ca, require_client_auth=True))
else:
    port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
server.wait_for_termination()
