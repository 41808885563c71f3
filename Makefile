# Entry points only; meson.build and pyproject.toml define the build.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BUILD  := build/release
CHECK  := build/check
FUZZ   := build/fuzz
PROFILED := build/profiled
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= fuzz_*
APT    := build-essential pkg-config python3-dev python3-venv \
	  libtraceevent-dev libtracefs-dev libtracecmd-dev libzstd-dev zlib1g-dev trace-cmd \
	  libbpf-dev clang

ROOMS   := schemas collector replay queries analyze
SOURCES := $(shell find $(ROOMS) -type f -not -path '*/__pycache__/*' -not -path '*/tests/*' -not -path '*/bench/*' -not -path '*/lab/*.[jmpt]*') \
	   pyproject.toml meson.build
C_FILES  = $(shell find $(ROOMS) -name '*.[ch]')
STEP    := $(PYTHON) .ci/step.py
GROUPS  := bench calibration calibration-r1 feedback fidelity kswapd-sleep programs reliability validation zone
LINTS   := lint-python lint-c lint-spelling lint-types lint-imports

# The runs of pytest below share the tests that the first one has compiled.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup profiled demo test check fuzz mutate adversary lint $(LINTS) format golden lab bench corpus $(GROUPS) package package-test clean

help:			## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' $(MAKEFILE_LIST)

setup: $(VENV)/installed	## install everything into .venv (and missing apt packages)

$(VENV)/system: Makefile
	@.ci/packages $(APT)
	@$(STEP) "a virtual environment, $(VENV)" $(BUILD)-venv.log $(PYTHON) -m venv $(VENV) && touch $@

$(VENV)/tools: $(VENV)/system pyproject.toml
	@$(STEP) "Python packages into $(VENV) (pip)" $(BUILD)-pip.log $(BIN)/pip install 'pip>=25.1'
	@$(STEP) "Python packages into $(VENV) (pyproject.toml)" $(BUILD)-packages.log \
		$(BIN)/pip install --group build --group run --group test && touch $@

$(VENV)/installed: $(VENV)/tools $(SOURCES)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(STEP) "building pagetape into $(VENV)" $(BUILD)-build.log \
		$(BIN)/pip install --verbose --no-deps --no-build-isolation -Cbuild-dir=$(BUILD) . && touch $@

profiled: $(VENV)/profiled	## rebuild the engine with a profile: about 1.2 times as fast

# A build with branch counters, in a directory of its own, replays a storm and the bundled
# tape. gcc then optimises the installed build with the counts.
PROFILED_PIP  = PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pip install --no-deps --no-build-isolation -Cbuild-dir=$(PROFILED)
$(VENV)/profiled: $(VENV)/installed
	@echo "setup: the engine again, with a profile of a storm"
	@rm -rf $(PROFILED)
	@$(PROFILED_PIP) --quiet --target $(PROFILED)/counting \
		-Csetup-args=-Dc_args=-fprofile-generate -Csetup-args=-Dc_link_args=-fprofile-generate .
	@for tape in "" analyze/demo/pressure.tape; do PYTHONPATH=$(PROFILED)/counting \
		$(BIN)/python replay/bench/replay_bench.py --repeat 1 $$tape >/dev/null || exit; done
	@$(PROFILED_PIP) --quiet --force-reinstall -Csetup-args=-Dc_link_args= \
		-Csetup-args=-Dc_args="-fprofile-use -fprofile-partial-training -Wno-missing-profile -Wno-maybe-uninitialized" .
	@touch $@

demo: setup		## record this machine (or play the bundled tape), replay it twice, report, HTML
	@BIN=$(BIN) analyze/demo/run demo

# .ci/gate.py has the steps: style and types, the C tests plain and under sanitizers, Python. All of
# them run, whatever fails. PAGETAPE_LIVE=require turns skipped live tests into failures.
test:			## the tests of every room, counted; the last line is the sum
	@$(MAKE) --no-print-directory setup || \
		{ printf '%s\n' 'FAILED: make setup' '0 passed, 1 failed, 0 skipped'; exit 1; }
	@$(BIN)/python .ci/gate.py $(BUILD) $(CHECK)

# With -O1 and lines alone for the debugger, the compiler takes half of its time at -O2 -g; the
# sanitizers see the same accesses.
check: setup		## the C tests under address and undefined-behaviour sanitizers
	@[ -e $(CHECK)/build.ninja ] || PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/meson setup $(CHECK) \
		-Doptimization=1 -Ddebug=false -Dc_args=-g1 -Db_sanitize=address,undefined -Db_lundef=false >/dev/null
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/meson test -C $(CHECK) --suite pagetape --print-errorlogs --timeout-multiplier 5

# Each target of meson.build's fuzz_targets runs for FUZZ_SECONDS, starting from its corpus in the
# room's tests and from what earlier runs found. build/fuzz/NAME-crash-* is an input that breaks it.
fuzz: setup		## each fuzz target under the sanitizers; FUZZ_SECONDS=60 FUZZ_TARGETS='fuzz_*'
	@.ci/packages libclang-rt-dev
	@[ -e $(FUZZ)/build.ninja ] || PATH="$(CURDIR)/$(BIN):$$PATH" CC=clang $(BIN)/meson setup $(FUZZ) \
		-Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false \
		-Dc_args=-fsanitize=fuzzer-no-link >/dev/null
	@PATH="$(CURDIR)/$(BIN):$$PATH" ninja -C $(FUZZ) --quiet fuzz_targets
	@cd $(FUZZ) && for room in *; do for target in $$room/$(FUZZ_TARGETS); do \
		[ -f $$target ] || continue; \
		name=$${target#*/}; mkdir -p corpus/$$name; seeds=$(CURDIR)/$$room/tests/corpus/$$name; \
		printf '\n== %s\n' $$name; \
		$$target -len_control=0 -timeout=30 -rss_limit_mb=2048 -print_final_stats=1 \
			-max_total_time=$(FUZZ_SECONDS) -artifact_prefix=$$name- corpus/$$name \
			$$([ ! -d $$seeds ] || echo $$seeds) || exit; done; done; \
	case fuzz_proc in $(FUZZ_TARGETS)) printf '\n== fuzz_proc\n'; \
		$(CURDIR)/$(BIN)/python $(CURDIR)/collector/tests/fuzz_proc.py \
			$(CURDIR)/collector/tests/data/proc-6.1 $(FUZZ_SECONDS) || exit;; esac; \
	case fuzz_table in $(FUZZ_TARGETS)) printf '\n== fuzz_table\n'; \
		$(CURDIR)/$(BIN)/python $(CURDIR)/analyze/lab/fuzz_table.py $(FUZZ_SECONDS) || exit;; esac; \
	case fuzz_messages in $(FUZZ_TARGETS)) printf '\n== fuzz_messages\n'; \
		$(CURDIR)/$(BIN)/python $(CURDIR)/analyze/lab/fuzz_messages.py $(FUZZ_SECONDS);; esac

# Each seed is one damaged input. The inputs that a command cannot cope with stay in build/mutate.
MUTATE_COUNT ?= 10000
MUTATE_FIRST ?= 0
mutate: setup		## damaged inputs on every command; MUTATE_COUNT=10000 MUTATE_FIRST=0
	@$(BIN)/python analyze/lab/mutate.py --count $(MUTATE_COUNT) --first $(MUTATE_FIRST)

# The tests of docs/security.md and of the limits, then kills and damaged inputs, more than `make test` has.
adversary: setup	## try what docs/security.md promises: trust, limits, kills, damaged inputs
	@cd analyze/tests && ../../$(BIN)/python -m pytest -q test_adversary.py test_archive.py test_locked.py \
		test_isolated.py test_memory.py test_faults.py test_hostile.py test_output.py
	@PAGETAPE_MATRIX=whole $(BIN)/python -m pytest -q analyze/tests/test_load.py -k a_kill_leaves_nothing
	@$(BIN)/python analyze/lab/kills.py --count 60
	@$(MAKE) --no-print-directory mutate

lint: setup		## style, types, spelling and the import contract
	@$(MAKE) --no-print-directory --keep-going $(LINTS)

lint-python: setup
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

lint-c: setup
	@$(BIN)/clang-format --dry-run -Werror $(C_FILES)
	@$(BIN)/lizard --languages c --length 80 --arguments 6 --CCN 100 --warnings_only $(ROOMS)

lint-spelling: setup
	@$(BIN)/codespell

lint-types: setup
	@cd $(VENV) && bin/mypy --config-file ../pyproject.toml -p pagetape

lint-imports: setup
	@$(BIN)/lint-imports

format:			## reformat the sources
	$(BIN)/ruff check --quiet --fix . && $(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_FILES)

golden: setup		## accept new query results and tables of pages; then read `git diff`
	@PAGETAPE_BLESS=1 $(BIN)/pytest --quiet analyze/tests

# MEASURE: measurements, or groups of them (analyze/lab/lab.py list); without one, `make lab` writes
# the pages alone. LAB: arguments of the measurement, as '--unseen DIR' for recordings in DIR.
lab: setup		## measure pagetape, and write docs/how-good.md; MEASURE='accuracy kills' LAB=
	@$(BIN)/python analyze/lab/lab.py $(if $(MEASURE),measure $(MEASURE) -- $(LAB),pages)

bench: profiled		## `make lab` of the benchmarks; each figure beside a peer or a limit of the same run

# The groups by their names. validation changes sysctls of this machine, and restores them.
$(GROUPS): setup
	@$(MAKE) --no-print-directory lab MEASURE=$@

# The matrix of analyze/lab/corpus.toml. DIR: where the tapes go; those that are there stay.
# CORPUS: further arguments of corpus.py record, as --half seen.
DIR ?= build/fidelity/guests
corpus: setup		## record kernels x machines x loads in QEMU, for LAB=DIR
	@$(BIN)/python analyze/lab/corpus.py record $(DIR) $(CORPUS)

$(VENV)/packaging: $(VENV)/tools
	@$(BIN)/pip install --quiet --group package && touch $@

package: setup $(VENV)/packaging	## build sdist, wheel and Debian package into build/package
	@.ci/package

package-test:		## install what `make package` built into bare Debian trees, and try it (root)
	@.ci/packages debootstrap
	@.ci/package-test build/package

clean:			## remove the build and the venv
	rm -rf build $(VENV) demo
