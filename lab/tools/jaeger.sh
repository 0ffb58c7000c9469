#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Jaeger, all in one process, for the tests of radar export otlp: some seven minutes of CPU time, once.
#
# usage: lab/tools/jaeger.sh FILE
set -euo pipefail

version=v1.76.0
file=$(realpath -m "$1")
module=$(dirname "$file")/../../../jaeger # beside the servers, not in this tree: go.mod stays without it

if [ "$(cat "$file.version" 2>/dev/null)" = "$version" ] && [ -x "$file" ]; then
	exit 0
fi
mkdir -p "$module" "$(dirname "$file")"
cd "$module"
rm -f go.mod go.sum
unset GOFLAGS
go mod init judge 2>/dev/null
go get -tool "github.com/jaegertracing/jaeger/cmd/all-in-one@$version"
CGO_ENABLED=0 nice go build -trimpath -o "$file" github.com/jaegertracing/jaeger/cmd/all-in-one
echo "$version" >"$file.version"
