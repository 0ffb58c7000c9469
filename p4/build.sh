#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the P4 programs, and holds what was compiled against its sources.
#
#   p4/build.sh         # compiles into p4/build, and writes p4/build.sum
#   p4/build.sh check   # fails if p4/build is not what the sources compile to
#
# No package registry has p4c, so most machines do not have it, and p4/build is committed.
# p4/build.sum has the checksums of the sources and of what was made of them, and the version of
# the compiler: check compares these everywhere. Where that version of p4c is installed it
# compiles, too, and demands the same bytes: compiling is reproducible.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export LC_ALL=C

program=radar_v1model
examples=(examples/hub)

version() { p4c --version | grep -oE '[0-9]+(\.[0-9]+){3}' | head -n 1; }

# smaller FILE NAME: BMv2's JSON without the source line of each step, which are three quarters of it
# and only for traces. p4c is written in Python in part, so Python is there.
smaller() {
	python3 - "$1" "$2" <<-'END'
		import json, sys

		def without_lines(x):
		    if isinstance(x, dict):
		        return {k: without_lines(v) for k, v in x.items() if k != "source_info"}
		    return [without_lines(v) for v in x] if isinstance(x, list) else x

		with open(sys.argv[1]) as f:
		    program = without_lines(json.load(f))
		program["program"] = sys.argv[2]
		with open(sys.argv[1], "w") as f:
		    json.dump(program, f, separators=(",", ":"))
		    f.write("\n")
	END
}

# compile DIR: the program into DIR. The examples only have to compile.
compile() {
	local name
	p4c --target bmv2 --arch v1model --std p4_16 --Werror \
		--p4runtime-files "$1/$program.p4info.txtpb" -o "$1" "$program.p4"
	smaller "$1/$program.json" "$program.p4"
	for name in "${examples[@]}"; do
		p4c --target bmv2 --arch v1model --std p4_16 --Werror -o "$1/examples" "$name.p4"
	done
	rm -rf "$1/examples" "$1"/*.p4i
}

sums() {
	find . -name '*.p4' -print0 | sort -z | xargs -0 sha256sum
	sha256sum build.sh build/*
	printf '%s  p4c\n' "$1"
}

compiled_by() { sed -n 's/  p4c$//p' build.sum; }

case ${1:-} in
'')
	command -v p4c >/dev/null || { echo "p4: p4c is not installed: docs/p4.md says how it is built" >&2; exit 1; }
	mkdir -p build
	compile build
	sums "$(version)" >build.sum
	;;
check)
	sums "$(compiled_by)" | diff build.sum - || {
		echo "p4: the programs have changed, and p4/build is not made of them: type: make p4" >&2
		exit 1
	}
	command -v p4c >/dev/null || exit 0
	if [ "$(version)" != "$(compiled_by)" ]; then
		echo "p4: p4c $(version) is another version than $(compiled_by), so its output is not compared"
		exit 0
	fi
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	compile "$fresh"
	diff -q build "$fresh" || { echo "p4: p4/build is not what p4c makes of the programs: type: make p4" >&2; exit 1; }
	;;
*)
	echo "usage: p4/build.sh [check]" >&2
	exit 2
	;;
esac
