# SPDX-License-Identifier: Apache-2.0
"""What the vNetRadar paper (Ma et al., GLOBECOM 2022) gives as numbers or claims in its text.

Its figures are plots without values: what is not in the text is not here.
"""

FLOWS = 400  # of Fig. 4 and 5
PACKETS_PER_FLOW = 500
PATHS = 4
DELAYS_MS = {"s2": 20, "s3": 40, "s4": 60, "s5": 80}  # Fig. 5: uniform from 0 to that

LINK_MBIT = 100  # Fig. 7
FRAMES = (64, 1514)
IN_BAND_LOSS_PERCENT = 42.4  # of goodput: PPTMon, N = 10, 64 bytes

PINGS = 10_000  # Fig. 8, in each of 100 rounds
DELAY_PER_HOP_US = 1.0

CPU_POINTS = (8.3, 14.7)  # Fig. 9: per cent points more, least and most over the rates
CPU_SECONDS, CPU_ROUNDS = 60, 10

FUID_BITS = {"DSCP": 2, "IP ID": 16, "TTL": 8}  # capacity: 2^26 packets
CAPACITY_RATE_PPS, CAPACITY_SECONDS = 2.5e6, 26.8
CAPACITY_BUFFER_BYTES, CAPACITY_BUFFER_PACKETS = 50e6, 0.78e6

# Table I, of vNetRadar: what it claims to be, all at once.
PROPERTIES = ("fine-grained", "light in CPU", "light in bandwidth", "network-wide", "easy to deploy")
# Table II: what its backpack keeps of a packet.
METADATA = ("ttl_original", "dscp_original", "ip_id_original", "first_hop_ts", "previous_hop_ts", "device_id", "path")
