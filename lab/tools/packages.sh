#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs those of the Debian packages that are missing, beside whatever else installs.
#
# usage: lab/tools/packages.sh PACKAGE...
#        lab/tools/packages.sh --download DIR PACKAGE...
#
# --download unpacks what the packages have in /usr/bin into DIR/usr/bin and installs nothing:
# no service starts, neither now nor with the machine. DIR/done says what is there.
#
# While another apt-get, dpkg or unattended upgrade runs, as Debian and Ubuntu start one at
# boot, this waits, RADAR_APT_WAIT seconds at most (900).
#
# docker.io is there if any Docker engine is: docker-ce, or a dockerd and a docker on PATH. It
# is never put in the place of Docker's own packages; nor is any package removed for another.
set -euo pipefail

limit=${RADAR_APT_WAIT:-900}
tmp='' new=''
cleanup() {
	trap '' INT TERM
	rm -rf ${tmp:+"$tmp"} ${new:+"$new"}
}
trap cleanup EXIT
# timeout passes on what all of its group got, so that a signal comes twice. The second one, without
# this, may end bash before cleanup has begun.
trap 'cleanup; exit 130' INT TERM

die() {
	echo "$0: $*" >&2
	exit 1
}

as_root() { # COMMAND...: what to type to have it run by root
	if [ "$(id -u)" -eq 0 ]; then
		echo "$*"
	elif command -v sudo >/dev/null; then
		echo "sudo $*"
	else
		echo "su -c '$*'"
	fi
}

# Packages that decide whether docker.io is needed, besides itself.
docker_own=(docker-ce docker-ce-cli containerd.io)

# find_missing PACKAGE...: sets missing.
find_missing() {
	local p have
	have=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${docker_own[@]}" "$@" 2>/dev/null || true)
	there() { grep -qxF "$1 installed" <<<"$have"; }
	missing=()
	for p; do
		there "$p" && continue
		if [ "$p" = docker.io ]; then
			there docker-ce && continue
			command -v dockerd >/dev/null && command -v docker >/dev/null && continue
			# Docker's own client or containerd without its engine. docker.io conflicts with both,
			# and whoever chose them would not have them replaced.
			if there docker-ce-cli || there containerd.io; then
				die "needs a Docker engine, and docker.io does not go with the docker-ce-cli or containerd.io that is here: type: $(as_root apt-get install docker-ce)"
			fi
		fi
		missing+=("$p")
	done
	[ ${#missing[@]} -gt 0 ]
}

# apt ARGS...: apt-get, silently. Status 2: somebody else has a lock.
# apt's own DPkg::Lock::Timeout is no help: it knows dpkg's locks, not those of the lists
# (apt-get update) and of the archives (apt-get install while it downloads).
apt() {
	# Its messages are read, so they have to be English. A configuration file that somebody
	# changed is kept.
	LC_ALL=C.UTF-8 LANGUAGE='' DEBIAN_FRONTEND=noninteractive apt-get -c "$tmp/apt.conf" "$@" \
		>"$tmp/log" 2>&1 </dev/null && return 0
	! grep -qE 'Could not get lock|lock was locked by another process' "$tmp/log" || return 2
	return 1
}

waited=0
# wait_lock: after apt's status 2. Says once what it waits for.
wait_lock() {
	local holder
	holder=$(sed -nE -e 's/.*Could not get lock .* It is held by process ([0-9]+) \((.*)\).*/PID \1, \2/p' \
		-e 's/.*by another process with pid ([0-9]+).*/PID \1/p' "$tmp/log" | head -n 1)
	holder="another apt-get${holder:+ ($holder)}"
	if [ "$waited" -ge "$limit" ]; then
		cat "$tmp/log" >&2
		die "gave up after $limit seconds: $holder still runs; type the same again once it has ended"
	fi
	[ "$waited" -gt 0 ] || echo "waiting for $holder ..."
	sleep 1
	waited=$((waited + 1))
}

# update: the lists of packages. A server that does not answer is asked again; what then still
# fails need not matter, since it may be of a source that none of the packages comes from.
update() {
	local try=1 status
	while true; do
		status=0
		# Without Error-Mode apt-get calls lists that it could not get a success.
		apt update -qq -o APT::Update::Error-Mode=any || status=$?
		case $status in
		0) return ;;
		2) wait_lock ;;
		*)
			if [ "$try" -eq 3 ]; then
				cat "$tmp/log" >&2
				echo "$0: apt-get update failed; going on with the lists that are here" >&2
				return
			fi
			sleep $((try * 3))
			try=$((try + 1))
			;;
		esac
	done
}

prepare() {
	command -v apt-get >/dev/null || die "there is no apt-get here: install by other means what these Debian packages have: $*"
	tmp=$(mktemp -d)
	# Container images delete all downloaded packages after an update, even those that another
	# apt-get is about to install.
	cat >"$tmp/apt.conf" <<-'CONF'
		#clear APT::Update::Post-Invoke;
		Acquire::Retries "3";
		DPkg::Lock::Timeout "0";
		Dpkg::Options { "--force-confdef"; "--force-confold"; };
	CONF
}

install_missing() {
	local status
	find_missing "$@" || return 0
	prepare "${missing[@]}"
	if [ "$(id -u)" -ne 0 ]; then
		die "packages are missing, and only root can install them: type: $(as_root "$0" "${missing[@]}")"
	fi
	echo "installing: ${missing[*]}"
	update
	# Who held the lock may have installed some of them, or another Docker.
	while find_missing "$@"; do
		status=0
		apt install -y -qq --no-install-recommends --no-remove "${missing[@]}" || status=$?
		case $status in
		0) return ;;
		2) wait_lock ;;
		*)
			tail -n 30 "$tmp/log" >&2
			die "apt-get could not install: ${missing[*]}"
			;;
		esac
	done
}

download() {
	local dir=${1%/} status p
	shift
	[ "$(cat "$dir/done" 2>/dev/null)" != "$*" ] || return 0
	mkdir -p "$(dirname "$dir")"
	dir=$(cd "$(dirname "$dir")" && pwd)/$(basename "$dir")
	# Clones share the folder: one of them downloads.
	exec 9>"$dir.lock"
	flock -n 9 || { echo "waiting for another make that gets $* ..."; flock 9; }
	[ "$(cat "$dir/done" 2>/dev/null)" != "$*" ] || return 0
	prepare "$@"
	echo "unpacking: $*"
	# An ordinary user takes the lists that are here.
	[ "$(id -u)" -ne 0 ] || update
	new=$dir.$$-$EPOCHSECONDS # beside it: moved there only once complete. Its name is known before it is made
	mkdir -m 755 "$new"
	while true; do
		status=0
		# apt's own user may not write here.
		pushd "$new" >/dev/null
		apt download -qq -o APT::Sandbox::User=root "$@" || status=$?
		popd >/dev/null
		case $status in
		0) break ;;
		2) wait_lock ;;
		*)
			tail -n 30 "$tmp/log" >&2
			[ "$(id -u)" -eq 0 ] || die "could not download, maybe since only root can update the lists of packages: type: $(as_root apt-get update)"
			die "apt-get could not download: $*"
			;;
		esac
	done
	for p in "$new"/*.deb; do
		dpkg-deb --fsys-tarfile "$p" | tar -x -C "$new" ./usr/bin
		rm "$p"
	done
	echo "$*" >"$new/done"
	rm -rf "$dir"
	mv -T "$new" "$dir"
	new=''
}

if [ "${1:-}" = --download ]; then
	[ $# -ge 3 ] || die "usage: $0 --download DIR PACKAGE..."
	shift
	download "$@"
elif [ $# -ge 1 ] && [[ $1 != -* ]]; then
	install_missing "$@"
else
	die "usage: $0 PACKAGE... | --download DIR PACKAGE..."
fi
