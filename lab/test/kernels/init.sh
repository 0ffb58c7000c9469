#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
#
# First process of the virtual machine: loads the modules, runs every test
# binary of /tests, writes the verdict to the serial line, powers off. run.sh
# believes only the last line "radar-kernels: exit N".

/bin/busybox mkdir -p /proc /sys /dev /run /tmp /root
/bin/busybox --install -s /bin
export PATH=/tools:/bin HOME=/root

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t tracefs trace /sys/kernel/tracing
mkdir -p /run/netns

rc=0
while read -r module; do
	insmod "/modules/$module" || rc=1
done </modules/order
ip link set lo up
# The machine's own limits on ICMP errors, where namespaces have none.
for limit in icmp_msgs_per_sec icmp_msgs_burst; do
	[ ! -e "/proc/sys/net/ipv4/$limit" ] || echo 100000 >"/proc/sys/net/ipv4/$limit"
done
export RADAR_OWN_MACHINE=1 # tests may set the clock
while read -r variable; do
	[ -z "$variable" ] || export "${variable?}"
done </tests/env

echo "radar-kernels: $(uname -r), init after $(cut -d ' ' -f 1 /proc/uptime) s"
for test in /tests/*.test; do
	echo "radar-kernels: $(basename "$test")"
	(cd /tmp && "$test" -test.v -test.run "$(cat /tests/run)" -test.timeout "$(cat /tests/timeout)s") || rc=1
done
[ "$(cat /proc/sys/kernel/tainted)" = 0 ] || echo "radar-kernels: kernel is tainted: $(cat /proc/sys/kernel/tainted)"
echo "radar-kernels: end after $(cut -d ' ' -f 1 /proc/uptime) s"
echo "radar-kernels: exit $rc"
poweroff -f
