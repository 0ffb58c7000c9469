#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prepares what Kathará needs, from packages only, without an image registry:
#
#   setup.sh up      an image with the tools that labs use, and radar; our network
#                    plugin; Kathará in a virtual environment, with settings of its own
#   setup.sh down    removes all of it
#
# Needs root, a Docker engine that runs (DOCKER_HOST is heeded), debootstrap,
# Python with venv, and Go. RADAR_BIN is the binary for the image (bin/radar).
# Images and plugins are named by their content: what is there is used again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=$root/.cache/kathara
radar=${RADAR_BIN:-$root/bin/radar}

image=radar/kathara
base=radar/kathara-base
plugin=radar/kathara-bridge
arch=amd64 # Kathará asks for the plugin under this tag

# What startup scripts and people call in a lab.
packages=bash,ethtool,iperf3,iproute2,iptables,iputils-ping,libpcap0.8,netbase,nftables,procps,tcpdump,traceroute

say() { echo "kathara: $*"; }
die() { echo "kathara: $*" >&2; exit 1; }

# digest FILE...: twelve characters that name the content.
digest() { cat "$@" | sha256sum | cut -c1-12; }

have_image() { docker image inspect "$1" >/dev/null 2>&1; }
have_plugin() { docker plugin inspect "$1" >/dev/null 2>&1; }

# The mirror that this machine installs its own packages from.
mirror() {
	apt-get indextargets --format "\$(CODENAME) \$(COMPONENT) \$(REPO_URI)" 'Created-By: Packages' |
		awk -v suite="$1" '$1 == suite && $2 == "main" { print $3; exit }'
}

# make_base NAME: imports the tools' image, from a file if an earlier run left it.
make_base() {
	local tar=$cache/base-${1##*:}.tar tree uri
	if [ ! -f "$tar" ]; then
		uri=$(mirror "$suite")
		[ -n "$uri" ] || die "apt knows no mirror of $suite: run apt-get update, or add it to the sources"
		say "making the image's files with debootstrap ($suite)"
		tree=$(mktemp -d "$cache/tree.XXXXXX")
		if ! debootstrap --variant=minbase --include="$packages" "$suite" "$tree" "$uri" >"$cache/debootstrap.log" 2>&1; then
			tail -n 20 "$cache/debootstrap.log" >&2
			die "debootstrap failed; its log is $cache/debootstrap.log"
		fi
		rm -rf "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/* "$tree"/usr/share/{doc,man,locale,info}
		tar -C "$tree" --one-file-system --numeric-owner -cf "$tar.part" .
		rm -rf --one-file-system "$tree"
		mv "$tar.part" "$tar"
	fi
	docker import --change 'CMD ["/bin/bash"]' "$tar" "$1" >/dev/null
}

# make_image NAME BASE: the tools' image with radar in it.
make_image() {
	local id
	id=$(docker create "$2" true)
	docker cp "$radar" "$id:/usr/local/bin/radar" >/dev/null
	docker commit --change 'CMD ["/bin/bash"]' "$id" "$1" >/dev/null
	docker rm "$id" >/dev/null
}

# make_plugin NAME: the plugin in $cache/plugin, enabled.
make_plugin() {
	have_plugin "$1" || docker plugin create "$1" "$cache/plugin" >/dev/null
	[ "$(docker plugin inspect --format '{{.Enabled}}' "$1")" = true ] || docker plugin enable "$1" >/dev/null
}

# build_plugin fills $cache/plugin with what "docker plugin create" reads.
build_plugin() {
	mkdir -p "$cache/plugin/rootfs"
	cp "$here/plugin/config.json" "$cache/plugin/"
	(cd "$root" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$cache/plugin/rootfs/plugin" ./lab/kathara/plugin)
}

make_venv() {
	if [ "$(cat "$cache/venv/done" 2>/dev/null)" != "$(cat "$here/requirements.txt")" ]; then
		say "installing Kathará"
		python3 -m venv "$cache/venv"
		"$cache/venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt"
		cp "$here/requirements.txt" "$cache/venv/done"
	fi
}

# settings IMAGE PLUGIN: Kathará's settings, kept apart from the user's.
settings() {
	mkdir -p "$cache/config"
	cat >"$cache/config/kathara.conf" <<-END
	{
	  "image": "$1",
	  "manager_type": "docker",
	  "network_plugin": "$2",
	  "image_update_policy": "Never",
	  "open_terminals": false,
	  "shared_mount": false,
	  "hosthome_mount": false,
	  "last_checked": 4102444800
	}
	END
}

# forget_others KIND REPOSITORY KEEP: removes versions that nobody uses any more.
forget_others() {
	local name
	while read -r name; do
		[ "$name" != "${3:-}" ] || continue
		if [ "$1" = plugin ]; then
			docker plugin disable "$name" >/dev/null 2>&1 || true
			docker plugin rm "$name" >/dev/null 2>&1 || true
		else
			docker image rm "$name" >/dev/null 2>&1 || true
		fi
	done < <(names "$1" "$2")
}

# names KIND REPOSITORY: what the engine has of it.
names() {
	if [ "$1" = plugin ]; then
		docker plugin ls --format '{{.Name}}' | grep "^$2-" || true
	else
		docker image ls --format '{{.Repository}}:{{.Tag}}' "$2"
	fi
}

up() {
	local suite base_name image_name plugin_name venv_job
	[ -x "$radar" ] || die "no $radar: run make build, or set RADAR_BIN"
	mkdir -p "$cache"
	exec 9>"$cache/lock"
	flock 9
	make_venv &
	venv_job=$!
	# shellcheck disable=SC1091 # the machine's own
	suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
	base_name=$base:$(echo "$suite $packages" | digest)
	have_image "$base_name" || make_base "$base_name"
	image_name=$image:$(echo "$base_name" | digest - "$radar")
	have_image "$image_name" || make_image "$image_name" "$base_name"
	build_plugin
	plugin_name=$plugin-$(digest "$cache/plugin/config.json" "$cache/plugin/rootfs/plugin")
	make_plugin "$plugin_name:$arch"
	wait "$venv_job" || die "installing Kathará failed"
	settings "$image_name" "$plugin_name"
	forget_others image "$image" "$image_name"
	forget_others image "$base" "$base_name"
	find "$cache" -maxdepth 1 -name 'base-*.tar' ! -name "base-${base_name##*:}.tar" -delete
	forget_others plugin "$plugin" "$plugin_name:$arch"
	say "ready: image $image_name, plugin $plugin_name:$arch"
}

down() {
	if docker version >/dev/null 2>&1; then
		forget_others image "$image"
		forget_others image "$base"
		forget_others plugin "$plugin"
		local left
		left=$(names image "$image"; names image "$base"; names plugin "$plugin")
		[ -z "$left" ] || die "still in use, end the labs first: ${left//$'\n'/ }"
	fi
	rm -rf --one-file-system "$cache"
}

[ "$(id -u)" -eq 0 ] || die "needs root"
case ${1:-} in
up | down)
	if [ "$1" = up ]; then
		docker version >/dev/null 2>&1 || die "no Docker engine answers: start dockerd (package docker.io)"
	fi
	"$1"
	;;
*) die "usage: setup.sh up|down" ;;
esac
