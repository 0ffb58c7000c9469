#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lab/tools/packages.sh with the real apt-get and dpkg, in a folder of their own: their locks,
# lists and packages are not the machine's, and the packages are empty ones made here. Needs
# root, as apt-get does, but no network.
#
# usage: lab/tools/packages_test.sh
set -euo pipefail
[ "$(id -u)" -eq 0 ] || { echo "$0: needs root, as apt-get does" >&2; exit 1; }
packages=$(cd "$(dirname "$0")" && pwd)/packages.sh

t=$(mktemp -d)
chmod 755 "$t"
holders=()
cleanup() {
	for pid in ${holders[@]+"${holders[@]}"}; do kill "$pid" 2>/dev/null || true; done
	rm -rf "$t"
}
trap cleanup EXIT

# What packages.sh runs, and apt-get and dpkg: the machine's own docker and sudo are not there.
mkdir "$t/bin"
for c in apt-get awk base64 basename bash cat chmod cp diff dirname dpkg dpkg-deb dpkg-query dpkg-split env flock grep \
	gzip head id kill ldconfig ln ls mkdir mktemp mv python3 rm sed sh sleep sort start-stop-daemon tail tar timeout touch xz; do
	at=$(PATH=$PATH:/usr/sbin:/sbin command -v "$c") || { echo "$0: needs $c" >&2; exit 1; }
	ln -s "$at" "$t/bin/$c"
done
python=$(python3 -c 'import sys; print(sys.executable)') # not a script that looks for one
ln -sf "$python" "$t/bin/python3"
export PATH=$t/bin

# pool NAME [CONTROL LINE...]: a package with a command of its name.
mkdir "$t/pool"
pool() {
	local name=$1
	shift
	mkdir -p "$t/deb/DEBIAN" "$t/deb/usr/bin"
	printf '%s\n' "Package: $name" 'Version: 1' 'Architecture: all' 'Maintainer: nobody <nobody@localhost>' "$@" 'Description: test' >"$t/deb/DEBIAN/control"
	echo '#!/bin/sh' >"$t/deb/usr/bin/$name"
	chmod 755 "$t/deb/usr/bin/$name"
	dpkg-deb -b "$t/deb" "$t/pool/$name.deb" >/dev/null
	{
		cat "$t/deb/DEBIAN/control"
		"$python" -c 'import hashlib, os, sys; f = sys.argv[1]; print("Filename: ./" + os.path.basename(f)); print("Size:", os.path.getsize(f)); print("SHA256:", hashlib.sha256(open(f, "rb").read()).hexdigest())' "$t/pool/$name.deb"
		echo
	} >>"$t/pool/Packages"
	rm -r "$t/deb"
}
pool one
pool two
pool rival 'Conflicts: one'
# As Debian's and Docker's own do.
pool containerd
pool docker.io 'Depends: containerd' 'Conflicts: docker-ce, docker-ce-cli'
pool containerd.io 'Conflicts: containerd' 'Replaces: containerd' 'Provides: containerd'
pool docker-ce-cli 'Conflicts: docker.io'
pool docker-ce 'Depends: docker-ce-cli, containerd.io' 'Conflicts: docker.io'

# fresh: a machine without packages.
fresh() {
	rm -rf "$t/machine" "$t/lists"
	mkdir -p "$t"/machine/{root,etc/apt/{apt.conf.d,preferences.d,sources.list.d,trusted.gpg.d},lists/partial,cache/archives/partial,dpkg/info,dpkg/updates,dpkg/triggers}
	touch "$t/machine/dpkg/status" "$t/machine/dpkg/available"
	echo "deb [trusted=yes] file:$t/pool ./" >"$t/machine/etc/apt/sources.list"
	cat >"$t/machine/apt.conf" <<-CONF
		Dir::Etc "$t/machine/etc/apt";
		Dir::State "$t/machine";
		Dir::State::lists "$t/machine/lists";
		Dir::State::status "$t/machine/dpkg/status";
		Dir::Cache "$t/machine/cache";
		Dir::Log "$t/machine";
		Dpkg::Options { "--instdir=$t/machine/root"; "--log=$t/machine/dpkg.log"; };
		APT::Sandbox::User "root";
	CONF
	export APT_CONFIG=$t/machine/apt.conf DPKG_ADMINDIR=$t/machine/dpkg
}
has() { dpkg-query -W -f '${Package}=${db:Status-Status}\n' 2>/dev/null | sed -n 's/=installed$//p' | tr_line; }
tr_line() { local l=() p; while read -r p; do l+=("$p"); done; echo "${l[*]-}"; }
by_hand() { apt-get update -qq >/dev/null && apt-get install -y -qq "$@" >/dev/null 2>&1; }

# until_it COMMAND...: waits until that is true, minutes at most.
until_it() {
	local i
	for ((i = 0; i < 6000; i++)); do
		! "$@" || return 0
		sleep 0.05
	done
	echo "$0: waited in vain for: $*" >&2
	exit 1
}
# What packages.sh prints is in $t/out while it runs. Others hold a lock until it waits for that.
: >"$t/out"
waits="i=0; until grep -q 'waiting for' $t/out || [ \$i -ge 3000 ]; do sleep 0.1; i=\$((i + 1)); done"

# hold SECONDS FILE...: locks them as apt does, which is not what flock does, until packages.sh
# waits, and for so long then.
hold() {
	: >"$t/out"
	rm -f "$t/held"
	"$python" -c 'import fcntl, sys, time
files = [open(f, "w") for f in sys.argv[2:]]
for f in files: fcntl.lockf(f, fcntl.LOCK_EX)
print("held", flush=True)
for i in range(3000):
    if "waiting for" in open("'"$t"'/out").read(): break
    time.sleep(0.1)
time.sleep(float(sys.argv[1]))' "$@" >"$t/held" &
	holders+=($!)
	until_it [ -s "$t/held" ]
}

passed=0 failed=0
# wants STATUS OUTPUT COMMAND...: a pattern of the whole output, standard error included.
wants() {
	local status=0 out
	"${@:3}" >"$t/out" 2>&1 || status=$?
	out=$(<"$t/out")
	: >"$t/out"
	# shellcheck disable=SC2053 # a pattern
	if [ "$status" -eq "$1" ] && [[ $out == $2 ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL line %s: %s: status %s, wanted %s; wanted output:\n%s\noutput:\n%s\n' "${BASH_LINENO[0]}" "${*:3}" "$status" "$1" "$2" "$out"
	fi
}

# What is missing, and nothing else.
fresh
wants 0 'installing: one two' "$packages" one two
wants 0 'one two' has
wants 0 '' "$packages" one two
wants 1 'installing: three*Unable to locate package three*could not install: three' "$packages" three
wants 1 '*usage:*' "$packages"
wants 1 'installing: rival*remove is disabled*could not install: rival' "$packages" rival
wants 0 'one two' has

# A lock that another has.
for lock in lists/lock cache/archives/lock dpkg/lock-frontend dpkg/lock; do
	fresh
	hold 0 "$t/machine/$lock"
	wants 0 "installing: one
waiting for another apt-get (PID ${holders[-1]}, python3) ..." "$packages" one
	wants 0 one has
done
# All of them, one after the other: said once.
fresh
hold 1 "$t/machine/lists/lock"
hold 3 "$t/machine/cache/archives/lock"
hold 5 "$t/machine/dpkg/lock-frontend"
wants 0 'installing: one
waiting for another apt-get (PID [0-9]*, python3) ...' "$packages" one
fresh
hold 600 "$t/machine/dpkg/lock-frontend"
wants 1 "installing: one
waiting for another apt-get (PID ${holders[-1]}, python3) ...
*gave up after 3 seconds: another apt-get (PID ${holders[-1]}, python3) still runs; type the same again once it has ended" \
	env RADAR_APT_WAIT=3 "$packages" one

# A real one, which installs one of the two.
fresh
apt-get update -qq
apt-get install -y -qq -o 'DPkg::Pre-Invoke::=touch '"$t"'/started; '"$waits" one >/dev/null 2>&1 &
holders+=($!)
until_it [ -e "$t/started" ]
wants 0 "installing: one two
waiting for another apt-get (PID ${holders[-1]}, apt-get) ..." "$packages" one two
wants 0 'one two' has

# Docker, whoever it is of.
fresh
wants 0 'installing: docker.io' "$packages" docker.io
wants 0 'containerd docker.io' has
fresh
by_hand docker-ce
wants 0 '' "$packages" docker.io
wants 0 'installing: one' "$packages" docker.io one
wants 0 'containerd.io docker-ce docker-ce-cli one' has
for own in docker-ce-cli containerd.io; do
	fresh
	by_hand "$own"
	wants 1 "*needs a Docker engine, *: type: apt-get install docker-ce" "$packages" one docker.io
	wants 0 "$own" has
done
# A client alone is no engine.
fresh
cp "$t/bin/sh" "$t/bin/docker"
wants 0 'installing: docker.io' "$packages" docker.io
fresh
cp "$t/bin/sh" "$t/bin/dockerd"
wants 0 '' "$packages" docker.io
rm "$t/bin/docker" "$t/bin/dockerd"
# Docker's own arrives meanwhile: docker.io would replace it.
fresh
apt-get update -qq
rm "$t/started"
apt-get install -y -qq -o 'DPkg::Pre-Invoke::=touch '"$t"'/started; '"$waits" docker-ce >/dev/null 2>&1 &
holders+=($!)
until_it [ -e "$t/started" ]
wants 0 'installing: docker.io
waiting for another apt-get (*, apt-get) ...' "$packages" docker.io
wants 0 'containerd.io docker-ce docker-ce-cli' has

# An update leaves alone what another apt-get has downloaded.
fresh
echo "APT::Update::Post-Invoke { \"rm -f $t/machine/cache/archives/*.deb\"; };" >>"$t/machine/apt.conf"
apt-get update -qq
touch "$t/machine/cache/archives/another.deb"
wants 0 'installing: one' "$packages" one
wants 0 '*/another.deb' ls "$t/machine/cache/archives/another.deb"

# A source that does not answer does not matter, if no package is of it.
fresh
echo "deb [trusted=yes] file:$t/nowhere ./" >>"$t/machine/etc/apt/sources.list"
wants 0 'installing: one*apt-get update failed; going on with the lists that are here' "$packages" one
wants 0 one has

# Not root: only if something is missing.
fresh
by_hand one
rm "$t/bin/id"
printf '#!/bin/sh\necho 1000\n' >"$t/bin/id"
chmod 755 "$t/bin/id"
wants 0 '' "$packages" one
wants 1 "$packages: packages are missing, and only root can install them: type: su -c '$packages two'" "$packages" one two
rm "$t/bin/id"
ln -s "$(PATH=/usr/bin:/bin command -v id)" "$t/bin/id"
# No apt-get.
mv "$t/bin/apt-get" "$t/apt-get"
wants 0 '' "$packages" one
wants 1 '*: there is no apt-get here: install by other means what these Debian packages have: two' "$packages" one two
mv "$t/apt-get" "$t/bin/apt-get"

# --download.
fresh
wants 0 'unpacking: one two' "$packages" --download "$t/servers/" one two
wants 0 'one two' cat "$t/servers/done"
wants 0 'one
two' ls "$t/servers/usr/bin"
wants 0 '' has
wants 0 '' "$packages" --download "$t/servers" one two
wants 0 'unpacking: two' "$packages" --download "$t/servers" two
wants 0 two ls "$t/servers/usr/bin"
# What could not be had leaves what was there.
wants 1 '*could not download: two three' "$packages" --download "$t/servers" two three
wants 0 two cat "$t/servers/done"
wants 0 "$t/servers
$t/servers.lock" ls -d "$t"/servers*
# Nor does an interruption.
mv "$t/bin/apt-get" "$t/apt-get"
printf '#!/bin/sh\ncase "$*" in *download*) touch "%s/started"; kill -INT 0; sleep 60 ;; esac\n' "$t" >"$t/bin/apt-get"
chmod 755 "$t/bin/apt-get"
rm -f "$t/started"
# It may come twice, the second time as what is left is removed.
mv "$t/bin/rm" "$t/rm"
printf '#!/bin/sh\nkill -INT 0\nexec "%s/rm" "$@"\n' "$t" >"$t/bin/rm"
chmod 755 "$t/bin/rm"
(cd "$t" && exec timeout 300 "$packages" --download servers one) >/dev/null 2>&1 || true # a group of its own
wants 0 "$t/started" ls "$t/started"
wants 0 "$t/servers
$t/servers.lock" ls -d "$t"/servers*
mv "$t/apt-get" "$t/bin/apt-get"
mv "$t/rm" "$t/bin/rm"
hold 0 "$t/machine/lists/lock"
wants 0 "unpacking: one
waiting for another apt-get (PID ${holders[-1]}, python3) ..." "$packages" --download "$t/servers" one

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
