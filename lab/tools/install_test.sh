#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What make install puts where, and lab/tools/vulnerabilities.sh with databases made here. Needs
# neither root nor, where govulncheck has been fetched before, a network.
#
# usage: lab/tools/install_test.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
fail() { echo "install_test.sh: $*" >&2; exit 1; }

make --no-print-directory install DESTDIR="$t" PREFIX=/usr >"$t/log" 2>&1 || { cat "$t/log" >&2; fail "make install failed"; }
doc=$t/usr/share/doc/radar
share=$t/usr/share
completions=("$share/bash-completion/completions/radar" "$share/zsh/vendor-completions/_radar" "$share/fish/vendor_completions.d/radar.fish")
for file in "$t/usr/bin/radar" "$share"/man/man1/radar{,-attach,-int-intent-apply}.1 "${completions[@]}" "$doc/SECURITY.md" "$doc/Apache-2.0.txt" "$doc/GPL-2.0-only.txt"; do
	[ -s "$file" ] || fail "no ${file#"$t"}"
done
# What Wireshark gets, if it says where; without it make install goes on, and says so.
ours() { find "$t" -name radar_int.lua -size +10k -o -name radar_packets.lua -size +4k -o -path '*/extcap/radar' -perm 0755; }
if [ -n "$(tshark -G folders 2>/dev/null || true)" ]; then
	[ "$(ours | wc -l)" -eq 3 ] || fail "Wireshark gets $(ours): $(tail -n 3 "$t/log")"
	grep -q "^exec '/usr/bin/radar' extcap" "$(ours | grep extcap)" || fail "Wireshark does not run what is installed"
	make --no-print-directory uninstall DESTDIR="$t" PREFIX=/usr >/dev/null 2>&1 || fail "make uninstall failed"
	[ -z "$(find "$t" -type f ! -name log)" ] || fail "make uninstall left $(find "$t" -type f ! -name log)"
	make --no-print-directory install DESTDIR="$t" PREFIX=/usr >"$t/log" 2>&1 || fail "make install failed again"
else
	grep -q '^without Wireshark' "$t/log" || fail "nothing is said of Wireshark"
fi
# What the program itself says that it is made of.
while read -r module version; do
	grep -qE "^$module $version: (LICEN[CS]E|COPYING)" "$doc/THIRD-PARTY.txt" || fail "no licence of $module $version in THIRD-PARTY.txt"
done < <(go version -m "$t/usr/bin/radar" | awk '$1 == "dep" { print $2, $3 }')
# And what the page is made of.
while IFS=$'\t' read -r _ name version licence; do
	grep -qF "$name $version: LICENSE" "$doc/THIRD-PARTY.txt" || fail "no licence ($licence) of $name $version in THIRD-PARTY.txt"
done < <(grep -v '^#' pkg/api/page/src/lib/versions.txt)
grep -q '^Go go1' "$doc/THIRD-PARTY.txt" || fail "no terms of Go in THIRD-PARTY.txt"

# A database that is not there is no failure, and is said.
out=$(GOVULNDB=http://127.0.0.1:1 lab/tools/vulnerabilities.sh) || fail "an unreachable database fails: $out"
[[ $out == *'NOT LOOKED AT'* ]] || fail "an unreachable database is not said: $out"
if [[ $out == *'cannot be fetched'* ]]; then
	echo "install_test.sh: ok, but for databases of vulnerabilities: $out"
	exit 0
fi
# One that knows something of a module that a program calls. It is a small program: looking at radar takes minutes.
small=./lab/kathara/plugin
mkdir -p "$t/db/index" "$t/db/ID"
echo '{"modified":"2026-01-01T00:00:00Z"}' >"$t/db/index/db.json"
echo '[{"path":"github.com/vishvananda/netlink","vulns":[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]}]' >"$t/db/index/modules.json"
echo '[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z","aliases":[]}]' >"$t/db/index/vulns.json"
cat >"$t/db/ID/GO-2026-0001.json" <<'END'
{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z","summary":"made up for a test","details":"made up for a test",
"affected":[{"package":{"name":"github.com/vishvananda/netlink","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
"ecosystem_specific":{"imports":[{"path":"github.com/vishvananda/netlink","symbols":["NewHandle"]}]}}],"database_specific":{"url":"https://example.org"}}
END
if out=$(GOVULNDB=file://$t/db lab/tools/vulnerabilities.sh "$small" 2>&1); then fail "a vulnerability is no failure: $out"; fi
[[ $out == *GO-2026-0001* ]] || fail "the vulnerability is not said: $out"
# One that knows nothing.
echo '[]' >"$t/db/index/modules.json"
out=$(GOVULNDB=file://$t/db lab/tools/vulnerabilities.sh "$small") || fail "no vulnerability is a failure: $out"
[[ $out == *'No vulnerabilities found'* ]] || fail "$out"
echo "install_test.sh: ok"
