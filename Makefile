# SPDX-License-Identifier: Apache-2.0
# Everything that a fresh Debian 12 machine with root needs: make demo, make test.
# The tiers of tests: make check, make test, .ci/run, make nightly (docs/design/0013-tiers.md).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# A build knows its tag or commit from git. VERSION=0.1.0 is for trees without (docs/releasing.md).
VERSION ?=
GOFLAGS_BUILD := $(if $(VERSION),-ldflags "-X github.com/vnetradar/radar/pkg/cli.version=$(VERSION)")
# libpcap compiles filter expressions, DuckDB answers SQL; both need cgo. CGO_ENABLED=0, or -tags
# nopcap and nosql, builds radar without them.
CGO_ENABLED ?= 1
export CGO_ENABLED
# Without the path of this folder in what is compiled, other clones use it again.
export GOFLAGS += -trimpath
# The Go that "make go" brings, if somebody called it.
export PATH := $(CURDIR)/.cache/go/bin:$(PATH)

# What building radar needs, what the main job needs, what building the BPF objects
# needs, what the tests need.
PKGS_BUILD := gcc g++ libc6-dev libpcap-dev
PKGS_RUN   := iproute2 iputils-ping iperf3 nftables tcpdump procps jq
PKGS_BPF   := clang-19 llvm-19 libbpf-dev linux-libc-dev
PKGS_TEST  := patch graphviz bpftool ethtool iptables shellcheck clang-format-19 curl python3 python3-venv docker.io busybox-static wireguard-tools user-mode-linux kmod tshark nfdump lua5.2 lua5.4 chromium nodejs poppler-utils
# Servers that tests run themselves. They are unpacked below .cache, not installed: no service
# starts, neither now nor with the machine.
PKGS_SERVERS := influxdb prometheus
PKGS_P4 := ethtool
PKGS_KATHARA := docker.io debootstrap busybox-static python3 python3-venv iptables ethtool
PKGS_EXPERIMENTS := python3 python3-venv bpftool ethtool $(PKGS_KATHARA)
PKGS_KERNEL := qemu-system-x86 busybox-static kmod cpio xz-utils

.PHONY: help
help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: need-go need-pcap ## bin/radar (CGO_ENABLED=0: without filter expressions and SQL)
	go build $(GOFLAGS_BUILD) -o bin/radar ./cmd/radar

.PHONY: need-pcap
need-pcap: need-go
	@[ "$(CGO_ENABLED)" = 0 ] || echo '#include <pcap/pcap.h>' | $$(go env CC) -E -o /dev/null - 2>/dev/null || \
		{ echo "make: filter expressions and SQL need C and C++ compilers and libpcap: type: apt-get install $(PKGS_BUILD), or without them: make build CGO_ENABLED=0"; exit 1; }

# Where shells look for completion, below share. Debian's zsh looks elsewhere for what packages bring.
BASH_COMPLETION := bash-completion/completions/radar
ZSH_COMPLETION = zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)/_radar
FISH_COMPLETION := fish/vendor_completions.d/radar.fish

.PHONY: install
install: build ## radar, man pages, completion and licences into PREFIX (default /usr/local); the Wireshark plugin where Wireshark is
	install -D -m 0755 bin/radar $(DESTDIR)$(or $(PREFIX),/usr/local)/bin/radar
	umask 022; bin/radar docs man $(DESTDIR)$(or $(PREFIX),/usr/local)/share/man/man1
	@doc=$(DESTDIR)$(or $(PREFIX),/usr/local)/share/doc/radar; \
	install -d $$doc; install -m 0644 LICENSES/*.txt SECURITY.md $$doc/; \
	lab/tools/notices.sh >$$doc/THIRD-PARTY.txt; chmod 0644 $$doc/THIRD-PARTY.txt
	@share=$(DESTDIR)$(or $(PREFIX),/usr/local)/share; \
	for c in bash:$(BASH_COMPLETION) zsh:$(ZSH_COMPLETION) fish:$(FISH_COMPLETION); do \
		install -d $$share/$$(dirname $${c#*:}); \
		bin/radar completion $${c%%:*} > $$share/$${c#*:}; chmod 0644 $$share/$${c#*:}; \
	done
	@lab/tools/wireshark.sh install bin/radar $(or $(PREFIX),/usr/local)/bin/radar $(DESTDIR)

.PHONY: uninstall
uninstall: ## what install has put into PREFIX, and nothing else
	@share=$(DESTDIR)$(or $(PREFIX),/usr/local)/share; \
	rm -f $(DESTDIR)$(or $(PREFIX),/usr/local)/bin/radar $$share/man/man1/radar.1 $$share/man/man1/radar-*.1 \
		$(addprefix $$share/,$(BASH_COMPLETION) $(ZSH_COMPLETION) $(FISH_COMPLETION)); \
	rm -rf $$share/doc/radar
	@lab/tools/wireshark.sh uninstall bin/radar $(or $(PREFIX),/usr/local)/bin/radar $(DESTDIR)

# $(call need,PACKAGES): installs those that are missing.
need = @lab/tools/packages.sh $(1)

# $(call venv,DIR,REQUIREMENTS): a virtual environment of Python with these packages.
# Clones share it: one of them makes it.
venv = @flock .cache/venv.lock sh -c '[ "$$(cat $(1)/done 2>/dev/null)" = "$$(cat $(2))" ] || { \
	rm -f $(1)/done && python3 -m venv $(1) && $(1)/bin/python -m pip install -q --disable-pip-version-check -r $(2) && cp $(2) $(1)/done; }'

# What is downloaded once serves all clones of a user: .cache is a link.
.cache:
	@mkdir -p $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/radar
	@ln -sfn $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/radar .cache

.PHONY: need-go go
need-go: | $(filter go,$(MAKECMDGOALS))
	@lab/tools/go.sh check $(MAKECMDGOALS)
go: .cache ## a Go that can build radar, for machines that have none or an old one
	lab/tools/go.sh install .cache/go

.PHONY: deps-build deps-run deps-bpf deps-test deps-servers deps-jaeger deps-kernel
deps-build: need-go
	$(call need,$(PKGS_BUILD))
deps-run: deps-build
	$(call need,$(PKGS_RUN))
deps-bpf: deps-build
	$(call need,$(PKGS_BPF))
deps-test: deps-run deps-bpf deps-servers
	$(call need,$(PKGS_TEST))
deps-servers: .cache
	@lab/tools/packages.sh --download .cache/servers $(PKGS_SERVERS)
	$(call need,python3 python3-venv)
	$(call venv,.cache/schemathesis,lab/test/servers/requirements.txt)
	$(call venv,.cache/records,lab/test/servers/records.txt)
	@command -v npm >/dev/null || lab/tools/packages.sh npm # some packages of nodejs bring it
	@flock .cache/axe.lock lab/tools/axe.sh .cache/axe/axe.min.js
deps-jaeger: .cache
	@flock .cache/jaeger.lock lab/tools/jaeger.sh .cache/servers/usr/bin/jaeger-all-in-one
deps-kernel:
	$(call need,$(PKGS_KERNEL))

.PHONY: demo demo-int demo-web picture
demo: deps-run build ## a virtual network, measured: paths, latency, losses (needs root)
	lab/demo.sh bin/radar
picture: deps-run build ## the README's picture and sample, anew, of a run of the demo
	lab/picture.sh bin/radar
demo-int: deps-run build ## a virtual network beside reports of switches (INT), and reports about it; fails if an answer is wrong
	lab/demo-int.sh bin/radar
	lab/demo-int-nodes.sh bin/radar
demo-web: deps-run build ## a virtual network under load, and its page in the browser, until Ctrl-C (CHECK=1: only asks the server)
	lab/demo-web.sh bin/radar $(if $(CHECK),--check)

.PHONY: generate objects
generate: objects ## BPF objects, docs/cli, tables of docs/int, the page's bundle
	go generate ./pkg/intwire ./pkg/telemetry/export ./pkg/api/page
	go run ./cmd/radar docs cli docs/cli
objects: deps-bpf
	go generate ./pkg/bpfobj ./cmd/bench ./cmd/bench/inband
	lab/tools/generated.sh sums >bpf/objects.sum

.PHONY: p4 p4-test
p4: ## the P4 programs, where p4c is installed: p4/build
	p4/build.sh
p4-test: deps-run build ## the P4 program on a real BMv2, every packet compared (CASE=regexp; RECORD=1: and into p4/testdata)
	@command -v simple_switch_grpc >/dev/null || { echo "make p4-test: needs BMv2 (simple_switch_grpc) in PATH: docs/p4.md says how it is built"; exit 1; }
	$(call need,$(PKGS_P4))
	RADAR_P4=1 RADAR_P4_RECORD=$(if $(RECORD),$(CURDIR)/p4/testdata) RADAR_REQUIRE="root tools" RADAR_BIN=$(CURDIR)/bin/radar \
		go test -count=1 -v -timeout 30m -run '$(if $(CASE),TestCases/$(CASE),Test(Cases|Lab|Driver|Intents|Answers)$$)' ./p4/test | grep -vE '^ *(===|--- PASS|--- SKIP|PASS)'

.PHONY: lint check
# As lab/tools/passed.sh takes them: also those that git does not track yet, or they would come in unseen.
FILES := git ls-files -co --exclude-standard
lint: need-go need-pcap
	@files=$$($(FILES) '*.go'); out=$$(gofmt -l $$files); if [ -n "$$out" ]; then echo "gofmt: $$out"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	@# Radar without parts. lab/tools/generated.sh builds it without cgo, so with the same files as these two tags.
	go vet -tags nopcap ./pkg/filter
	go vet -tags nosql ./pkg/store/query/... ./pkg/cli/sql
	@files=$$($(FILES) '*.sh' .ci/run); \
	if command -v shellcheck >/dev/null; then shellcheck $$files; \
	elif [ -n "$(RADAR_REQUIRE)" ]; then echo "lint: needs shellcheck: apt-get install shellcheck"; exit 1; \
	else echo "lint: shell scripts are not looked at: apt-get install shellcheck"; fi
	@files=$$($(FILES) 'bpf/*.c' 'bpf/*.h'); \
	if command -v clang-format-19 >/dev/null; then clang-format-19 --dry-run -Werror $$files; \
	elif [ -n "$(RADAR_REQUIRE)" ]; then echo "lint: needs clang-format-19: apt-get install clang-format-19"; exit 1; \
	else echo "lint: the form of BPF sources is not looked at: apt-get install clang-format-19"; fi
	@lab/soak.py names e2e >/dev/null # the tests of docs/reliability.md are there
	@files=$$($(FILES) '*.go' '*.c' '*.h' '*.sh' '*.py' '*.lua' '*.p4'); missing=$$(echo "$$files" | grep -v '_bpfel\.go$$' | xargs grep -L SPDX-License-Identifier || true); \
	if [ -n "$$missing" ]; then echo "no SPDX line: $$missing"; exit 1; fi
	@if git grep --untracked -nE 'SPDX-License-Identifier: Apache' -- bpf/ ':!*.go' ':!*.py'; then echo "bpf/ is GPL-2.0-only OR BSD-2-Clause"; exit 1; fi
	lab/tools/generated.sh check
	p4/build.sh check
check: lint ## linters, generated files, and tests that need neither root nor a kernel: for each save
	@# go vet has run already. What go test cannot see a test depends on is in these variables (lab/test/need).
	export RADAR_TIER=check; variables=$$(lab/tools/state.sh variables); eval "$$variables"; \
		go test -vet=off ./...; go test -vet=off -tags nopcap ./pkg/filter

.PHONY: test
test: deps-test build ## what a commit must hold: linters, and every kind of test, as root (FORCE=1: also what has passed with the same inputs)
	@[ "$$(id -u)" -eq 0 ] || { echo "make test: needs root: the tests attach programs in network namespaces. Without: make check"; exit 1; }
	lab/tools/passed.sh lint tree '$(MAKE) --no-print-directory lint RADAR_REQUIRE=tools'
	@[ -n "$(KEEP_FLAKY)" ] || : >bin/flaky.txt # what runs beside this adds to it, too
	go test -count=1 -tags nopcap ./pkg/filter
	RADAR_BIN=$(CURDIR)/bin/radar lab/tools/test.sh

.PHONY: nightly
nightly: deps-test deps-jaeger deps-kernel build ## everything else: all cases, five kernels, long fuzz, race, mutants, soak, endurance, bench (STEPS="race ..." RECORD=1)
	RECORD=$(RECORD) lab/tools/nightly.sh $(STEPS)

.PHONY: transparency
# The verdict is the table at the end; tests that pass are not listed above it.
ifdef KERNELS
transparency: deps-test deps-kernel
	KERNELS="$(KERNELS)" CASE="$(CASE)" MODE="$(MODE)" MARKDOWN="$(MARKDOWN)" lab/test/transparency/kernels.sh | grep -vE '^ *(===|--- PASS)'
else
transparency: deps-test build ## runs with radar against runs without, one table (CASE=regexp MODE=mark|header MARKDOWN=1 KERNELS="6.12")
	RADAR_TIER=nightly RADAR_REQUIRE="root tools" RADAR_BIN=$(CURDIR)/bin/radar RADAR_MODE=$(MODE) RADAR_CASE="$(CASE)" RADAR_MARKDOWN=$(MARKDOWN) \
		go test -count=1 -v -timeout 45m -parallel 5 -run 'Test/$(CASE)' ./lab/test/transparency | grep -vE '^ *(===|--- PASS)'
endif

.PHONY: bench bench-short bench-xdp bench-record bench-check bench-pages
bench: deps-run build ## what radar costs beside nothing, the floor, tcpdump, the paper's design: some 35 minutes, says what took how long (BENCH=regexp: those alone)
	go run ./cmd/bench -radar bin/radar -json bin/bench.json $(if $(BENCH),-run '$(BENCH)')
bench-short: deps-run build
	go run ./cmd/bench -radar bin/radar -short $(if $(BENCH),-run '$(BENCH)')
bench-xdp: ## what a telemetry report costs at XDP, above a program that drops it at once
	go test ./pkg/telemetry/xdp -run '^$$' -bench XDP
bench-record: need-go ## bin/bench.json becomes the recorded run, of which docs/performance.md, docs/results and README.md are made
	go run ./cmd/bench -record bin/bench.json
bench-check: need-go ## whether the recorded figures are of the programs in this tree
	go run ./cmd/bench -recorded
bench-pages: need-go ## these pages anew, of the recorded run (go test ./cmd/bench/result checks them)
	go run ./cmd/bench -pages

.PHONY: experiments experiments-report experiments-record experiments-check experiments-env
EXPERIMENTS_ENV := .cache/experiments
EXPERIMENTS := PYTHONPATH=experiments $(EXPERIMENTS_ENV)/bin/python experiments/run.py
experiments-env: deps-run .cache
	$(call need,$(PKGS_EXPERIMENTS) $(if $(FULL),$(PKGS_KERNEL)))
	$(call venv,$(EXPERIMENTS_ENV),experiments/requirements.txt)
experiments: experiments-env build ## the paper's figures, and ours, measured here: a quarter of an hour, one HTML report (ONLY="01 03" FULL=1 SEED=1)
	go build -trimpath -o bin/bench ./cmd/bench
	$(EXPERIMENTS) $(if $(FULL),--full) $(if $(SEED),--seed $(SEED)) $(ONLY)
experiments-report: experiments-env ## the report anew, of what has been measured
	$(EXPERIMENTS) --report
experiments-record: experiments-env ## what has been measured into experiments/ and docs/experiments.md (ONLY="01 03")
	$(EXPERIMENTS) --record $(ONLY)
experiments-check: experiments-env ## pyflakes, and whether the pages say what the recorded results do (make experiments-record ONLY=none writes them anew)
	$(EXPERIMENTS_ENV)/bin/python -m pyflakes experiments
	$(EXPERIMENTS) --check

.PHONY: fuzz fuzz-packets fuzz-int fuzz-bytes fuzz-record
FUZZ ?= 100
PACKETS ?= 60s
INT ?= 30s
# Inputs are counted, not seconds: Go 1.26 at times calls the end of its time a failure
# ("context deadline exceeded", golang/go#75804). FUZZ=100 is about a minute each.
fuzzed = RADAR_REQUIRE="root pcap" go test $(1) -run '^$$' -fuzz $(2) -fuzztime $$(($(3) * $(FUZZ) / 100))x
fuzz: fuzz-packets fuzz-int ## the fuzzers, FUZZ (100) per cent of a minute each; of packets PACKETS (60s, or 10000000x); of INT also INT (30s, or 50000000x)
	$(call fuzzed,./bpf/test,FuzzWatch,800000)
	$(call fuzzed,./pkg/vnet/backpack,FuzzRing,600000)
	$(call fuzzed,./pkg/vnet/backpack,FuzzState,1600000)
	$(call fuzzed,./pkg/filter,FuzzHeld,800000)
	$(call fuzzed,./pkg/filter,FuzzParse,5000000)
	$(call fuzzed,./pkg/lab,FuzzParse,100000)
	$(call fuzzed,./pkg/vnet/domain,FuzzParse,1000000)
	$(call fuzzed,./pkg/store/segments,FuzzRead,20000)
# Without go fuzz, for which an input takes several times as long: of BPF programs it sees
# no coverage. A script that fails is kept for FuzzPackets. bin/fuzz.txt counts what was run.
fuzz-packets: deps-bpf
	@mkdir -p bin
	RADAR_REQUIRE=root RADAR_FUZZ=$(PACKETS) RADAR_FUZZ_SEED=$(SEED) RADAR_FUZZ_RECORD=$(CURDIR)/bin/fuzz.txt \
		go test ./bpf/test -run TestRandomPackets -count=1 -v -timeout 0
# Twice: guided by coverage, and from a seed, which is fifty times as fast.
fuzz-int: fuzz-bytes
	$(call fuzzed,./pkg/intwire,FuzzDecode,1800000)
	$(call fuzzed,./pkg/telemetry/collect,FuzzTranslate,800000)
	$(call fuzzed,./pkg/telemetry/collect,FuzzTemplate,400000)
fuzz-bytes:
	RADAR_FUZZ=$(INT) RADAR_FUZZ_SEED=$(SEED) go test ./pkg/intwire -run TestRandomBytes -count=1 -v -timeout 0
fuzz-record: ## what bin/fuzz.txt counts, summed (RECORD=1: into docs/results/reliability.md)
	RECORD=$(RECORD) lab/reliability.sh fuzz <bin/fuzz.txt

.PHONY: packets packets-env
PACKETS_ENV := .cache/packets
packets-env: deps-test .cache
	$(call venv,$(PACKETS_ENV),bpf/test/requirements.txt)
packets: packets-env ## the tests' packets anew, by scapy (CHECK=1: only compare)
	$(PACKETS_ENV)/bin/python bpf/test/packets.py $(if $(CHECK),--check)

.PHONY: race
# What shares memory between goroutines and needs neither root nor time: for each change of that. Everything takes more than a quarter of an hour, mostly pkg/cli, whose tests
# run the command in networks, and the faults: the detector makes radar some ten times slower.
RACE_QUICK := ./pkg/vnet/agent/... ./pkg/vnet/backpack/... ./pkg/telemetry/collect/... ./pkg/telemetry/xdp/... ./pkg/store/... ./pkg/sink/... ./pkg/api ./pkg/api/live ./pkg/api/measured ./pkg/api/v1
# These count millions of packets, or of series, in one goroutine, where there is nothing to detect, or write
# them to clients: beside a busy core the detector makes that longer than a client may take.
RACE_LONG := ^Test(FollowerForgetsNothing|FollowerModel|UnfilledLapped|OrderInWindow|ContinuedEqualsRunningThrough|SecondsOfAllAreBounded|MemoryOfFlows|SelectSparesOnlyWork|SnapshotGrows|ExpositionBounded|SlowReaders)$$
# Of lab/test/e2e what drives the agent; its other tests, lab/test/transparency and lab/kathara/e2e ask
# the same agent about packets and times, whose verdicts hold for a radar at full speed.
RACE_E2E := Test(AgentEnds|RingWraps|InterfacesComeAndGo|SourcesStop|Endure)
race: deps-test ## every package under the race detector, and faults with an agent under it (QUICK=1: what needs no root)
ifdef QUICK
	RADAR_TIER=check FORCE=1 CGO_ENABLED=1 lab/tools/test.sh $(RACE_QUICK) -- -race -skip '$(RACE_LONG)'
else
	RADAR_TIER=nightly RADAR_REQUIRE="root tools docker pcap" CGO_ENABLED=1 go test -race -count=1 -p 1 -timeout 60m $$(go list ./... | grep -v -e /lab/test/e2e -e /lab/kathara/e2e -e /lab/test/transparency)
	CGO_ENABLED=1 go build -race -o bin/radar-race ./cmd/radar
	rm -f bin/race.*
	RADAR_TIER=nightly RADAR_REQUIRE="root tools" GORACE="log_path=$(CURDIR)/bin/race" RADAR_GAP=1ms RADAR_BIN=$(CURDIR)/bin/radar-race \
		go test -race -count=1 -v -timeout 60m -run '$(RACE_E2E)' ./lab/test/e2e
	@if ls bin/race.* >/dev/null 2>&1; then cat bin/race.*; exit 1; fi
endif

# Counts and dates go into docs/reliability.md and docs/results only with RECORD=1: once for each release.
.PHONY: soak mutants
# Tests of faults, each as often as docs/reliability.md says; make test runs a tenth of some.
soak: deps-test build ## faults, many times over: some half an hour (SOAK=regexp: those alone; RECORD=1)
	RADAR_TIER=nightly RECORD=$(RECORD) RADAR_BIN=$(CURDIR)/bin/radar lab/soak.sh $(if $(SOAK),'$(SOAK)')
.PHONY: endure
PIECE ?= 30m
endure: deps-test build ## a piece of an endurance run at 90 % of the rate without loss: nothing may grow (PIECE=30m RECORD=1)
	ended=0; \
	RADAR_TIER=nightly RADAR_REQUIRE="root tools" RADAR_ENDURE=$(PIECE) RADAR_ENDURE_RECORD=$(CURDIR)/bin/endure.txt RADAR_BIN=$(CURDIR)/bin/radar \
		go test -count=1 -v -timeout 0 -run TestEndure ./lab/test/e2e || ended=$$?; \
	RECORD=$(RECORD) lab/reliability.sh endure <bin/endure.txt; exit $$ended
mutants: deps-test deps-bpf ## whether the tests of CI find bugs that are put in (BUGS="name ..." RECORD=1)
	mkdir -p bin
	RADAR_TIER=test lab/test/mutants/run.sh $(BUGS) | tee bin/mutants.txt
	[ -n '$(BUGS)' ] || RECORD=$(RECORD) lab/reliability.sh mutants <bin/mutants.txt

.PHONY: kernels
kernels: deps-test deps-kernel ## real Debian kernels (KERNELS="5.10 6.1 6.12 backports sid" PARTS="tests role runs"; RECORD=1: and docs/kernels.md)
	KERNELS="$(KERNELS)" PARTS="$(PARTS)" RECORD=$(RECORD) lab/test/kernels/matrix.sh

.PHONY: kathara kathara-clean deps-kathara
deps-kathara: deps-run .cache
	$(call need,$(PKGS_KATHARA))
kathara: deps-kathara build ## Docker and Kathará for real: image, network plugin, end-to-end tests (ALL=1: every lab)
	RADAR_BIN=$(CURDIR)/bin/radar RADAR_KATHARA_ALL=$(ALL) lab/tools/test.sh ./lab/kathara/e2e
kathara-clean: ## removes what make kathara has made
	lab/kathara/setup.sh down
