# SPDX-License-Identifier: Apache-2.0
"""Python's h2 on a socket.

It reads {ca, cases} from standard input and writes a line of JSON for each case; http_test.go says what their members
mean.
"""

import json
import socket
import ssl
import sys
import time
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events
import h2.settings

TIMEOUT = 60


class Client:
    """One connection."""

    def __init__(self, ca, one):
        url = urlsplit(one["url"])
        self.url, self.one, self.left = url, one, False
        self.socket = socket.create_connection((url.hostname, url.port), timeout=TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if url.scheme == "https":
            context = ssl.create_default_context(cadata=ca)
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket, server_hostname=url.hostname)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        if one["window"]:
            self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: one["window"]})
        self.flush()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def ask(self):
        """Send one request and return its status and how many bytes the response has."""
        one, stream = self.one, self.h2.get_next_available_stream_id()
        body = (one["prefix"] + "a" * one["size"] + one["suffix"]).encode()
        pieces = max(one["pieces"], 1)
        headers = [(":method", one["method"]), (":scheme", self.url.scheme), (":authority", self.url.netloc), (":path", self.url.path)]
        if pieces == 1 and not one["stall"]:
            headers.append(("content-length", str(len(body))))
        self.h2.send_headers(stream, headers + list(one["headers"].items()))
        self.flush()
        self.status, self.bytes, self.ended, self.stopped = 0, 0, False, False
        length = -(-len(body) // pieces)
        for i in range(pieces):
            self.send(stream, body[i * length : (i + 1) * length])
            if pieces > 1:
                self.read_for(stream, one["pause_ms"] / 1000)
        if not one["stall"] and not self.ended and not self.stopped:
            self.h2.end_stream(stream)
            self.flush()
        while not self.ended:
            self.read(stream)
        return self.status, self.bytes

    def send(self, stream, data):
        """Send data as the windows allow, and read what arrives meanwhile."""
        while data and not self.ended and not self.stopped:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(data))
            if room == 0:
                self.read(stream)
                continue
            self.h2.send_data(stream, data[:room])
            data = data[room:]
            self.flush()

    def read_for(self, stream, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.ended:
            self.socket.settimeout(left)
            try:
                self.read(stream)
            except TimeoutError:
                pass
            finally:
                self.socket.settimeout(TIMEOUT)

    def read(self, stream):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.ConnectionTerminated):
                self.left = True
            if getattr(event, "stream_id", None) != stream:
                continue
            if isinstance(event, h2.events.ResponseReceived):
                self.status = int(dict(event.headers)[":status"])
            elif isinstance(event, h2.events.DataReceived):
                self.bytes += len(event.data)
                self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended = True
            elif isinstance(event, h2.events.StreamReset):
                self.stopped = True
                if not self.ended:
                    raise ConnectionError(f"reset with {event.error_code} before the end of the response")
        if not self.left:
            self.flush()


def main():
    given = json.load(sys.stdin)
    for one in given["cases"]:
        outcome = {"name": one["name"], "statuses": [], "bytes": 0, "error": ""}
        client = None
        try:
            for _ in range(max(one["times"], 1)):
                if client is None or client.left:
                    client = Client(given["ca"], one)
                status, size = client.ask()
                outcome["statuses"].append(status)
                outcome["bytes"] += size
        except Exception as error:  # pylint: disable=broad-except
            outcome["error"] = repr(error)
        if client:
            client.socket.close()
        print(json.dumps(outcome), flush=True)


main()
