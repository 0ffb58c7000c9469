# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the demos share. They set lab and domain, whose names no other run has, then source it.

radar=$(realpath "${1:?usage: ${0##*/} path/to/radar}")
lab=${lab:?} domain=${domain:?}

[ "$(id -u)" -eq 0 ] || { echo "demo: needs root (network namespaces, BPF)" >&2; exit 1; }

cleanup() {
	status=$?
	trap '' INT TERM # what was made goes, however often one presses Ctrl-C
	for name in "${!background[@]}"; do stop "$name" || true; done
	if declare -F forget >/dev/null; then forget; fi # of the one demo that has more
	"$radar" detach --domain "$domain" --no-drain >/dev/null 2>&1 || true
	"$radar" lab down "$lab" >/dev/null 2>&1 || true
	exit "$status"
}
declare -A background=() # ids of processes that run beside, by name
stop() { # stop NAME: ends one, by force if it takes 30 s; its exit status
	local pid=${background[$1]} patience
	kill "$pid" 2>/dev/null || true
	for patience in $(seq 300); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	[ "$patience" -lt 300 ] || kill -9 "$pid" 2>/dev/null || true
	unset "background[$1]"
	wait "$pid"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
show() { # show PROMPT CMD...: the command as a user would type it
	printf '%s %s\n' "$1" "${*:2}" | sed "s|$radar|radar|; s| --domain $domain-| --domain |; s| --domain $domain||"
}
run() {
	show '$' "$@"
	"$@"
}
in_node() { # in_node NODE CMD...: quietly, in a node of the lab
	"$radar" lab exec "$lab" "$1" -- "${@:2}" >/dev/null
}
await() { # await CONDITION...
	for _ in $(seq 150); do
		if "$@" >/dev/null 2>&1; then return; fi
		sleep 0.1
	done
	echo "demo: not within 15 s: $*" >&2
	tail -n 5 "${tmp:?}"/*.err >&2
	return 1
}
wants() { # wants PATTERN... <ANSWER: shows the answer; each pattern must match one of its lines
	local answer pattern
	answer=$(cat)
	printf '%s\n' "$answer"
	for pattern in "$@"; do
		grep -qE -e "$pattern" <<<"$answer" || { echo "demo: no line matches: $pattern" >&2; return 1; }
	done
}
