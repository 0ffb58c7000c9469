#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Downloads axe-core (MPL-2.0), by which a test looks for what keeps people from using the page. Nothing of it is in radar.
#
# usage: lab/tools/axe.sh FILE
set -euo pipefail

version=4.14.1
sha256=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c # of axe.min.js
file=$1

is_there() { [ -f "$1" ] && echo "$sha256  $1" | sha256sum --check --status; }

is_there "$file" && exit 0
mkdir -p "$(dirname "$file")"
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
(cd "$t" && npm pack --silent "axe-core@$version" >packed && tar -xzf "$(cat packed)" package/axe.min.js)
is_there "$t/package/axe.min.js" || { echo "axe.sh: axe-core $version is not the file that is expected" >&2; exit 1; }
mv "$t/package/axe.min.js" "$file"
