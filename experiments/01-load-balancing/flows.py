#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many slow TCP flows from one host to another, with random pairs of ports.

    flows.py receive ADDRESS --seed 1        says "ready", ends when every flow has
    flows.py send ADDRESS --seed 1           both draw the same ports from the seed

A flow sends one small segment in every gap. The gap is longer than a round trip, so that
nothing is joined with the segment before it and nothing overtakes it: one send is one
packet. Needs nothing but Python: it runs in machines of labs.
"""

import argparse
import json
import random
import selectors
import socket
import sys
import time

PAYLOAD = bytes(100)
PATIENCE = 60.0  # seconds for what the network still owes


def port_pairs(flows, seed):
    """(source port, destination port) of each flow. No source port comes twice."""
    generator = random.Random(seed)
    sources = generator.sample(range(1024, 65536), flows)
    return [(source, generator.randrange(1024, 65536)) for source in sources]


def receive(address, pairs):
    """Reads what comes until all flows have ended. Returns the bytes."""
    selector = selectors.DefaultSelector()
    for port in {destination for _, destination in pairs}:
        listener = socket.create_server((address, port), backlog=16)
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, listener)
    print("ready", flush=True)
    received, ended = 0, 0
    while ended < len(pairs):
        for key, _ in selector.select():
            if key.data:  # a listener
                flow, _ = key.data.accept()
                flow.setblocking(False)
                selector.register(flow, selectors.EVENT_READ)
            elif data := key.fileobj.recv(1 << 16):
                received += len(data)
            else:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                ended += 1
    return received


def connect(address, pairs, interval):
    """Connects one flow after the other, at the pace at which they will send."""
    selector = selectors.DefaultSelector()
    flows = []
    for source, destination in pairs:
        flow = socket.socket()
        flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        flow.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        flow.bind(("", source))
        flow.setblocking(False)
        flow.connect_ex((address, destination))
        flows.append(flow)
        selector.register(flow, selectors.EVENT_WRITE)
        time.sleep(interval)
    end = time.monotonic() + PATIENCE
    while selector.get_map():
        ready = selector.select(timeout=1)
        for key, _ in ready:
            if error := key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, f"connect from port {key.fileobj.getsockname()[1]}")
            selector.unregister(key.fileobj)
        if time.monotonic() > end:
            raise TimeoutError(f"{len(selector.get_map())} flows do not connect")
    return flows


def send(address, pairs, packets, gap):
    """Sends the flows. Returns how late a send was at most, in seconds."""
    interval = gap / len(pairs)  # flows take turns: the rate is the same at any time
    flows = connect(address, pairs, interval)
    begin, latest = time.monotonic(), 0.0
    for turn in range(packets * len(flows)):
        late = time.monotonic() - begin - turn * interval
        if late < 0:
            time.sleep(-late)
        latest = max(latest, late)
        # What does not fit into the socket's buffer raises: it would not be one packet.
        flows[turn % len(flows)].send(PAYLOAD)
    for flow in flows:
        flow.close()
        time.sleep(interval)
    return latest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("send", "receive"))
    parser.add_argument("address", help="of the receiver")
    parser.add_argument("--flows", type=int, default=400)
    parser.add_argument("--packets", type=int, default=500, help="of a flow")
    parser.add_argument("--gap", type=float, default=0.2, help="seconds from one packet of a flow to its next")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    pairs = port_pairs(asked.flows, asked.seed)
    if asked.what == "receive":
        json.dump({"bytes": receive(asked.address, pairs)}, sys.stdout)
    else:
        sent = send(asked.address, pairs, asked.packets, asked.gap)
        json.dump({"latest_s": sent, "payload": len(PAYLOAD)}, sys.stdout)


if __name__ == "__main__":
    main()
