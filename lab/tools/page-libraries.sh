#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fetches the libraries of the page (pkg/api/page) from the npm registry, in the versions below, and
# puts their ES modules with their licences into pkg/api/page/src/lib. Run it after a
# change of a version. Browsers resolve no bare names without an import map, and the page's content
# security policy allows no inline one: so imports become relative paths here. Nothing else is changed,
# but uPlot's small file, which gets an export.
#
# usage: lab/tools/page-libraries.sh [--check]     --check compares with what is in the tree
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
lib=pkg/api/page/src/lib
check=${1:-}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT

# NAME VERSION LICENCE FOLDER FILE=AS...
libraries='preact 11.2.0 MIT preact dist/preact.mjs=preact.js hooks/dist/hooks.mjs=hooks.js
htm 3.1.1 Apache-2.0 htm dist/htm.module.js=htm.js
@preact/signals-core 1.14.5 MIT signals-core dist/signals-core.mjs=signals-core.js
@preact/signals 2.11.4 MIT signals dist/signals.mjs=signals.js
@dagrejs/dagre 3.1.3 MIT dagre dist/dagre.esm.js=dagre.js
uplot 1.6.32 MIT uplot dist/uPlot.iife.min.js=uplot.js dist/uPlot.min.css=uplot.css'

printf '# Libraries of the page: lab/tools/page-libraries.sh fetched them.\n# folder	package	version	licence\n' >"$t/versions.txt"
while read -r name version licence folder files; do
	mkdir -p "$t/$folder" "$t/out/$folder"
	(cd "$t" && npm pack --silent "$name@$version" >packed && tar -xzf "$(cat packed)" -C "$folder" --strip-components=1)
	printf '%s\t%s\t%s\t%s\n' "$folder" "$name" "$version" "$licence" >>"$t/versions.txt"
	cp "$t/$folder/LICENSE" "$t/out/$folder/LICENSE"
	for file in $files; do
		sed -E -e '/^\/\/# sourceMappingURL=/d; s|//# sourceMappingURL=.*$||' \
			-e 's|from ?"preact/hooks"|from"../preact/hooks.js"|g' \
			-e 's|from ?"preact"|from"../preact/preact.js"|g' \
			-e 's|from ?"@preact/signals-core"|from"../signals-core/signals-core.js"|g' \
			"$t/$folder/${file%=*}" >"$t/out/$folder/${file#*=}"
	done
done <<<"$libraries"
echo 'export default uPlot;' >>"$t/out/uplot/uplot.js"
mv "$t/versions.txt" "$t/out/versions.txt"
if [ "$check" = --check ]; then
	diff -r "$t/out" "$lib" && echo "page-libraries.sh: as they were published"
	exit
fi
rm -rf "$lib"
mv "$t/out" "$lib"
