#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# fetch.sh KERNEL CACHE: bring one Debian cloud kernel (5.10, 6.1, 6.12, or the
# newest of backports or sid) into CACHE and print the directory that holds it:
#   vmlinuz        the image
#   version        what uname -r will say
#   package        name and version of the Debian package
#   lib/modules/   its modules, uncompressed, with modules.dep
#
# apt runs with sources, lists and downloads of its own below CACHE, so the
# machine's apt is neither read beyond the address of its mirror nor changed.
# Signatures are checked against Debian's archive keyring. Needs no root.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin # depmod, for users other than root

die() { echo "fetch.sh: $*" >&2; exit 1; }
warn() { echo "fetch.sh: warning: $*" >&2; }

[ $# -eq 2 ] || die "usage: fetch.sh KERNEL CACHE"
kernel=$1
cache=$(realpath -m "$2")
keyring=${DEBIAN_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}

# Suite of each kernel, whether it lies in the security archive, and how its
# version begins: two suites move on to new ones.
case $kernel in
5.10) suite=bullseye-security archive=security series=5.10. ;;
6.1) suite=bookworm-security archive=security series=6.1. ;;
6.12) suite=trixie archive=main series=6.12. ;;
backports) suite=trixie-backports archive=main series= ;;
sid) suite=sid archive=main series= ;;
*) die "unknown kernel $kernel: choose from 5.10 6.1 6.12 backports sid" ;;
esac

store=$cache/$kernel
apt_dir=$cache/apt/$kernel
mkdir -p "$store" "$apt_dir"/{lists/partial,archives/partial}
work=$(mktemp -d "$store/.new.XXXXXX")
trap 'rm -rf "$work"' EXIT
exec 9>"$apt_dir/lock"
flock 9 # two runs at once share the cache

# mirror prints the base address of the archive, ending in a slash. Without a
# variable that names it, it is that of a Debian source of the machine's own
# apt, or that source's neighbour on the same host.
mirror() {
	local want=${DEBIAN_MIRROR:-}
	[ "$archive" = main ] || want=${DEBIAN_SECURITY_MIRROR:-}
	if [ -z "$want" ]; then
		# shellcheck disable=SC2016 # apt expands these, not the shell
		want=$(apt-get indextargets --no-release-info --format '$(REPO_URI) $(RELEASE)' \
			'Created-By: Packages' 'Component: main' |
			awk -v archive="$archive" '
			$1 !~ /\/debian(-security)?\/$/ { next }
			(($2 ~ /-security$/) == (archive == "security")) && !exact { exact = $1 }
			!near {
				near = $1
				sub(/\/debian(-security)?\/$/, archive == "security" ? "/debian-security/" : "/debian/", near)
			}
			END { print exact ? exact : near }')
	fi
	[ -n "$want" ] || die "apt names no Debian mirror on this machine: set DEBIAN_MIRROR" \
		"and DEBIAN_SECURITY_MIRROR to the base addresses of Debian's two archives"
	echo "${want%/}/"
}

# configure writes the private apt configuration. It is read after the
# machine's, whose proxies it keeps and whose hooks it clears.
configure() {
	local base line
	[ -r "$keyring" ] || die "no keyring at $keyring: apt-get install debian-archive-keyring, or set DEBIAN_KEYRING"
	base=$(mirror)
	# Old suites outlive the date in their index; the signature still counts.
	line="deb [arch=amd64 signed-by=$keyring check-valid-until=no] $base $suite main"
	[ "$(cat "$apt_dir/sources.list" 2>/dev/null)" = "$line" ] || echo "$line" >"$apt_dir/sources.list"
	: >"$apt_dir/status"
	cat >"$apt_dir/apt.conf" <<CONF
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::CNF;
APT::Architecture "amd64";
APT::Architectures "amd64";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::State "$apt_dir";
Dir::State::lists "$apt_dir/lists";
Dir::State::status "$apt_dir/status";
Dir::Cache "$apt_dir";
Dir::Cache::archives "$apt_dir/archives";
Dir::Etc::sourcelist "$apt_dir/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
CONF
}

# refresh updates the package lists unless that was done within a day.
refresh() {
	local fresh
	fresh=$(find "$apt_dir" -maxdepth 1 -name updated -newer "$apt_dir/sources.list" -mmin -1440)
	[ -z "$fresh" ] || return 0
	apt-get -c "$apt_dir/apt.conf" -qq -o APT::Update::Error-Mode=any update >&2
	touch "$apt_dir/updated"
}

# newest prints name and version of the newest package of this kernel.
newest() {
	local name
	name=$(apt-cache -c "$apt_dir/apt.conf" pkgnames "linux-image-$series" |
		grep -E '^linux-image-[0-9.]+[-+][a-z0-9.+-]*cloud-amd64$' | sort -V | tail -n 1)
	apt-cache -c "$apt_dir/apt.conf" show "$name" |
		awk '/^Package:/ { name = $2 } /^Version:/ { print name, $2 }' | sort -V | tail -n 1
}

# parts NAME VERSION prints the packages that hold a kernel: NAME itself, and where
# it is split (since 6.19) those that it needs for image, modules and lists of them.
parts() {
	echo "$1"
	apt-cache -c "$apt_dir/apt.conf" show "$1=$2" | sed -n 's/^Depends: //p' | tr ',' '\n' |
		sed -nE 's/^ *(linux-(base|binary|modules)-[0-9][^ ]+) .*/\1/p'
}

# unpack NAME VERSION puts a downloaded kernel into the store, whole or not at all,
# and keeps the one before it for the day its successor is gone.
unpack() {
	local deb modules release image
	for deb in "$work"/*.deb; do
		dpkg-deb -x "$deb" "$work/root"
	done
	modules=$(find "$work/root" -type d -path '*/lib/modules/*' -name '*-amd64' -prune)
	release=$(basename "$modules")
	image=$(find "$work/root/boot/vmlinuz-$release" "$modules/vmlinuz" 2>/dev/null || true)
	[ -n "$image" ] || die "no image in $1 $2"
	mkdir -p "$work/done/lib/modules"
	mv "$image" "$work/done/vmlinuz"
	mv "$modules" "$work/done/lib/modules/"
	find "$work/done/lib/modules" -name '*.ko.xz' -exec unxz {} +
	depmod -b "$work/done" "$release"
	echo "$release" >"$work/done/version"
	echo "$1 $2" >"$work/done/package"
	mv -T "$work/done" "$store/$1_$2"
	find "$store" -mindepth 1 -maxdepth 1 -name 'linux-image-*' | sort -V | head -n -2 | xargs -r rm -rf
}

# cached prints the newest kernel that is already unpacked.
cached() {
	find "$store" -mindepth 1 -maxdepth 1 -name 'linux-image-*' | sort -V | tail -n 1
}

# download brings the newest kernel, unless it is there.
download() {
	local found name version list
	configure
	refresh
	found=$(newest)
	read -r name version <<<"$found"
	[ ! -d "$store/${name}_$version" ] || return 0
	list=$(parts "$name" "$version")
	cd "$work"
	# shellcheck disable=SC2086 # a list of names
	apt-get -c "$apt_dir/apt.conf" -qq download ${list//$'\n'/=$version }=$version >&2
	unpack "$name" "$version"
}

# In a subshell outside of any condition: inside one bash ignores set -e.
set +e
(set -e; download)
status=$?
set -e
if [ $status -ne 0 ]; then
	[ -n "$(cached)" ] || die "cannot fetch a $kernel kernel from suite $suite, and none is cached in $store"
	warn "cannot fetch a $kernel kernel from suite $suite: using the newest cached one"
fi
cached
