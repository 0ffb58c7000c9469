#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs Go tests on real Debian kernels: for each kernel an emulated machine
# whose file system in memory holds busybox, some modules and the tests as
# static binaries. Needs neither root nor KVM, and a network only once.
#
#   lab/test/kernels/run.sh                              # all that fetch.sh knows
#   KERNELS=5.10 PACKAGES=./bpf/test lab/test/kernels/run.sh
#
# KERNELS              kernels to try, see fetch.sh (5.10 6.1 6.12 backports sid)
# PACKAGES             Go packages whose tests run there (./lab/test/kernels ./bpf/test)
# TOOLS                programs of this machine that the tests call, and their libraries ()
# COMMANDS             Go packages of commands that the tests call ()
# MORE_MODULES         kernel modules besides those below ()
# TEST_ENV             variables for the tests, NAME=VALUE, without spaces ()
# TEST_RUN             go test -run (all)
# RECORD=1             what programs cost goes to sizes.txt, else it is held against that
# KERNEL_TIMEOUT       bound on one machine, seconds (3600)
# KERNEL_MEMORY        of one machine, MiB (1024)
# RADAR_KERNELS_CACHE  downloads and logs (XDG cache directory/radar/kernels)
# DEBIAN_MIRROR, DEBIAN_SECURITY_MIRROR, DEBIAN_KEYRING  see fetch.sh
#
# Exit status: 0 if every test passed on every kernel, else 1.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin # depmod, for users other than root

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
cache=$(realpath -m "${RADAR_KERNELS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/radar/kernels}")
timeout_s=${KERNEL_TIMEOUT:-3600}
read -ra kernels <<<"${KERNELS:-5.10 6.1 6.12 backports sid}"
read -ra packages <<<"${PACKAGES:-./lab/test/kernels ./bpf/test}"

# Modules of the machine, with what they need; a kernel may have some built in.
modules=(veth bridge 8021q tun sch_ingress cls_bpf act_bpf sch_tbf sch_htb sch_netem
	nf_tables nft_chain_nat nft_counter nft_ct nft_nat nft_masq)
read -ra more <<<"${MORE_MODULES:-}"
modules+=("${more[@]}")
read -ra tools <<<"${TOOLS:-}"
read -ra commands <<<"${COMMANDS:-}"

die() { echo "run.sh: $*" >&2; exit 1; }

work=$(mktemp -d)
# shellcheck disable=SC2317 # the trap calls it
cleanup() {
	[ ! -s "$work/qemu.pid" ] || kill "$(cat "$work/qemu.pid")" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT # not on to the next kernel

# check refuses what cannot work, and names the package of each missing tool.
check() {
	local pair missing=()
	[ "$timeout_s" -ge 60 ] || die "KERNEL_TIMEOUT=$timeout_s: use 60 or more seconds"
	for pair in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio depmod:kmod \
		xz:xz-utils apt-get:apt dpkg-deb:dpkg go:golang flock:util-linux; do
		command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
	done
	[ ${#missing[@]} -eq 0 ] || die "tools are missing: apt-get install ${missing[*]}"
	if LC_ALL=C ldd "$(command -v busybox)" 2>/dev/null | grep -q '=>'; then
		die "busybox needs shared libraries: apt-get install busybox-static"
	fi
}

# build compiles the tests, named after their packages.
build() {
	local package
	mkdir -p "$work/tests" "$work/commands"
	for package in "${packages[@]}"; do
		CGO_ENABLED=0 GOARCH=amd64 go test -trimpath -c -o "$work/tests/$(tr / - <<<"${package#./}").test" "$package"
	done
	for package in "${commands[@]}"; do
		CGO_ENABLED=0 GOARCH=amd64 go build -trimpath -buildvcs=false -o "$work/commands/$(basename "$package")" "$package"
	done
	echo $((timeout_s - 30)) >"$work/tests/timeout" # Go's stacks before ours ends it
	printf '%s' "${TEST_RUN:-}" >"$work/tests/run"
	tr ' ' '\n' <<<"${TEST_ENV:-}" >"$work/tests/env"
}

# add_tools ROOT copies programs, with the libraries that they load, to ROOT/tools. Names
# that busybox has too are found there first.
add_tools() {
	local root=$1 name path file
	mkdir -p "$root/tools"
	find "$work/commands" -type f -exec cp {} "$root/tools/" \;
	for name in "${tools[@]}"; do
		path=$(command -v "$name") || die "tools are missing: $name"
		cp -L "$path" "$root/tools/$name"
		# Lines of ldd: NAME => PATH (ADDRESS), and PATH (ADDRESS) of the loader.
		while read -r file; do
			mkdir -p "$root$(dirname "$file")"
			cp -L "$file" "$root$file"
		done < <(LC_ALL=C ldd "$path" | sed -nE 's|^.*[[:space:]](/[^ ]+) \(.*|\1|p')
	done
	# What iptables loads by name.
	case " ${tools[*]} " in
	*" iptables "*) mkdir -p "$root/usr/lib/x86_64-linux-gnu" && cp -r /usr/lib/x86_64-linux-gnu/xtables "$root/usr/lib/x86_64-linux-gnu/" ;;
	esac
}

# pack DIR writes $work/initramfs, the file system for the kernel in DIR.
pack() {
	local dir=$1 release root=$work/root name kind path
	release=$(cat "$dir/version")
	rm -rf "$root"
	mkdir -p "$root"/{bin,modules}
	cp "$(command -v busybox)" "$root/bin/busybox"
	cp "$here/init.sh" "$root/init"
	chmod 755 "$root/init"
	cp -r "$work/tests" "$root/tests"
	add_tools "$root"
	for name in "${modules[@]}"; do
		modprobe -C /dev/null -d "$dir" -S "$release" --show-depends "$name" 2>/dev/null ||
			echo "run.sh: $release has no module $name" >&2
	done | while read -r kind path _; do
		[ "$kind" = insmod ] || continue
		name=$(basename "$path")
		[ ! -e "$root/modules/$name" ] || continue
		cp "$path" "$root/modules/$name"
		echo "$name" >>"$root/modules/order"
	done
	(cd "$root" && find . -print0 | cpio --null --quiet -o -H newc -R 0:0 | gzip -1 >"$work/initramfs")
}

# machine prints the options for accelerator and processor: emulation, unless
# the processor can virtualise. A /dev/kvm alone says little: inside a virtual
# machine it may start and then run nothing. QEMU 7.2 emulates cmpxchg16b
# wrongly now and then (1 boot of 8 of Linux 6.12 dies of it), so there is none.
machine() {
	if grep -qwE 'vmx|svm' /proc/cpuinfo && [ -w /dev/kvm ]; then
		echo -accel kvm -cpu host
	else
		echo -accel tcg,thread=multi -cpu max,cx16=off
	fi
}

# boot DIR LOG runs the machine; its serial line goes to LOG and to us.
boot() {
	local dir=$1 log=$2 options
	read -ra options < <(machine)
	timeout --foreground --kill-after 5 "$timeout_s" qemu-system-x86_64 \
		"${options[@]}" -smp 2 -m "${KERNEL_MEMORY:-1024}" \
		-kernel "$dir/vmlinuz" -initrd "$work/initramfs" \
		-append "console=ttyS0 quiet panic=-1 random.trust_cpu=on" \
		-display none -monitor none -serial stdio -nic none -no-reboot \
		-pidfile "$work/qemu.pid" </dev/null 2>&1 |
		stdbuf -oL tr -d '\r' | tee "$log"
}

# try KERNEL runs the tests there and adds one line to $work/results.
try() {
	local kernel=$1 dir log start verdict attempt
	dir=$("$here/fetch.sh" "$kernel" "$cache")
	echo "== $kernel: $(cat "$dir/package")"
	pack "$dir"
	mkdir -p "$cache/log"
	log=$cache/log/$kernel-$(basename "${packages[0]}").log
	start=$SECONDS
	# QEMU's emulation lets a kernel die now and then, before it has run anything of ours.
	for attempt in 1 2 3; do
		boot "$dir" "$log" || echo "run.sh: the machine did not end by itself within $timeout_s s, or failed (status $?)" >&2
		! grep -q '^radar-kernels: ' "$log" || break
		echo "run.sh: warning: $kernel did not come up, attempt $attempt of 3" >&2
	done
	verdict=$(sed -n 's/^radar-kernels: exit //p' "$log" | tail -n 1)
	[ "$verdict" = 0 ] && verdict=ok || verdict="FAILED, see $log"
	# All programs have been loaded, and only then.
	if grep -q '^--- PASS: TestProgramsLoad' "$log"; then
		"$here/sizes.sh" "$kernel" "$(cat "$dir/version")" <"$log" || verdict="FAILED: programs have grown"
	fi
	echo "$kernel|$(cat "$dir/version")|$((SECONDS - start)) s|$verdict" >>"$work/results"
	[ "$verdict" = ok ]
}

check
build
status=0
echo "kernel|release|time|verdict" >"$work/results"
for kernel in "${kernels[@]}"; do
	# In a subshell outside of any condition: inside one bash ignores set -e.
	set +e
	(set -e; try "$kernel")
	failed=$?
	set -e
	[ $failed -eq 0 ] || status=1
	grep -q "^$kernel|" "$work/results" || echo "$kernel|-|-|FAILED before it ran" >>"$work/results"
done
echo
awk -F'|' '{ printf "%-8s %-30s %-6s %s\n", $1, $2, $3, $4 }' "$work/results"
exit $status
