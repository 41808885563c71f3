# The one entry. The knowledge is in meson.build and pyproject.toml.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BUILD  := build/release
CHECK  := build/check
APT    := build-essential pkg-config python3-dev python3-venv \
	  libtraceevent-dev libtracefs-dev libtracecmd-dev libzstd-dev trace-cmd

ROOMS   := schemas collector replay queries analyze
SOURCES := $(shell find $(ROOMS) -type f -not -path '*/__pycache__/*' -not -path '*/tests/*' -not -path '*/bench/*') \
	   pyproject.toml meson.build
C_FILES  = $(shell git ls-files '*.c' '*.h')

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint format golden bench clean

help:			## this list
	@sed -n 's/^\([a-z]*\):[^#]*## /  make \1\t/p' $(MAKEFILE_LIST)

setup: $(VENV)/installed	## all that is needed, into .venv (and apt packages that are missing)

$(VENV)/system: Makefile
	@.ci/packages $(APT)
	@$(PYTHON) -m venv $(VENV) && touch $@

$(VENV)/tools: $(VENV)/system pyproject.toml
	@echo "setup: Python packages into $(VENV) (pip)"
	@$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/pip install --quiet --group build --group run --group test && touch $@

$(VENV)/installed: $(VENV)/tools $(SOURCES)
	@echo "setup: building pagetape into $(VENV)"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pip install --quiet --no-deps --no-build-isolation -Cbuild-dir=$(BUILD) . && touch $@

clean:			## forget the build and the venv
	rm -rf build $(VENV) demo
