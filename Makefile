# make demo   train a small network of fused kernels on real handwritten digits
# make check  ops and kernels of every kind on every backend: about a minute
# make test   lint, types and all tests but those that compile many variants (make variants)
# make docs   build the documentation's site in build/docs, and check it
# All make a virtual environment in .venv first; nothing but Python >= 3.11 is needed.

# PYTHON=/path/to/python chooses the interpreter; EXTRAS=demo,cuda13 the GPU packages.
VENV ?= .venv
EXTRAS ?= demo
DEV_EXTRAS ?= dev
JOBS ?= auto
CANDIDATES := $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python)
RUN := $(VENV)/bin/python

comma := ,
release_stamp := $(VENV)/.installed-release
demo_stamp := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))
docs_stamp := $(VENV)/.installed-docs
browser_stamp := $(VENV)/.installed-docs-browser
dev_stamp := $(VENV)/.installed-$(subst $(comma),-,$(DEV_EXTRAS))

.PHONY: array-api-tests demo check test frameworks-test lint pytest variants types wheels gpu-test multi-gpu-test gpu-test-hip rocm-test rocm-sample rocm-build benchmark docs docs-browser clean

demo: $(demo_stamp)
	$(RUN) -m nbfused demo $(DEMO)

# In the environment that is there; the one of the demo otherwise.
check: $(firstword $(wildcard $(dev_stamp) $(demo_stamp)) $(demo_stamp))
	$(RUN) -m nbfused selftest

test: lint pytest

lint: $(dev_stamp)
	$(RUN) -m ruff check .
	$(RUN) -m mypy

# Each worker begins with files of its own: tests of a file share what they compile.
pytest: $(dev_stamp)
	$(RUN) -m pytest -n $(JOBS) --dist worksteal -m "not variants" $(PYTEST)

# Every shape of tile, dtype and architecture, the ops like others, and what Numba's
# CUDA simulator runs. What other tests interpret is compiled here. A part of it has the
# tests' paths: PYTEST=tests/cuda.
variants: $(dev_stamp)
	$(RUN) -m pytest -n $(JOBS) -m "variants or interpreted" $(PYTEST)

# Every public name has a known type: pyright, which needs node or fetches it.
types: $(release_stamp)
	PATH="$(abspath $(VENV))/bin:$$PATH" $(RUN) .ci/public_types.py

# The wheel and the sdist, in dist, checked.
wheels: $(release_stamp)
	rm -rf dist
	$(RUN) -m build
	$(RUN) -m twine check --strict dist/*
	$(VENV)/bin/check-wheel-contents dist/*.whl

# Inside PyTorch and JAX, which the other targets do without, in workers of a notebook,
# beside xarray, pandas, Dask and units, and of two processes over gloo and MPI: about
# seven minutes on 2 cores. FRAMEWORKS= is for those that are there already.
FRAMEWORKS ?= torch jax flatbuffers nbclient ipykernel xarray pandas dask distributed \
	pint astropy sparse
# Folders of them, and every file elsewhere that asks for one.
FRAMEWORK_TESTS = tests/compilers tests/arrays tests/dask_arrays tests/distributed \
	tests/test_documents.py $(filter-out tests/compilers/% tests/arrays/% \
	tests/dask_arrays/% tests/distributed/%, $(shell grep -rlE \
	'importorskip."(torch|jax|dask)"' tests --include='test_*.py'))

frameworks-test: $(dev_stamp)
	$(if $(FRAMEWORKS),$(RUN) -m pip install --quiet $(FRAMEWORKS))
	$(RUN) -m pytest -n $(JOBS) --dist worksteal -m "not variants" $(FRAMEWORK_TESTS) $(PYTEST)

# GPU machines are often offline: the Python at hand, nothing installed.
gpu-test:
	NBFUSED_TEST_BACKEND=cuda $(or $(PYTHON),python3) -m pytest tests -m "gpu or cuda" $(PYTEST)

# nf.distributed on two GPUs of one host, by NCCL through PyTorch and through CuPy.
multi-gpu-test:
	$(or $(PYTHON),python3) -m pytest tests/distributed -k nccl $(PYTEST)

# HIP on an NVIDIA GPU, through nvcc: kernels are built ahead, many by each call of it.
gpu-test-hip:
	NBFUSED_ROCM_EMULATE=nvidia $(or $(PYTHON),python3) -m nbfused rocm build --dtypes all
	NBFUSED_ROCM_EMULATE=nvidia NBFUSED_TEST_BACKEND=rocm $(or $(PYTHON),python3) -m pytest tests -m "gpu or rocm" $(PYTEST)

# HIP on the CPU, through g++: what takes a device, with the last of waves of 64 threads
# as far ahead as it can be; what runs kernels of its own with the first of waves of 32,
# and SCHEDULED=tests/test_conformance.py for the ops.
EMULATED := NBFUSED_ROCM_EMULATE=1 NBFUSED_TEST_BACKEND=rocm
RUNNING := map reduce row contract matrix raw atomics arrays launch
SCHEDULED ?= $(RUNNING:%=tests/rocm/test_%.py) tests/acceptance
LAST := $(EMULATED) NBFUSED_EMULATION_WAVE=64 NBFUSED_EMULATION_SCHEDULE=last
FIRST := $(EMULATED) NBFUSED_EMULATION_WAVE=32 NBFUSED_EMULATION_SCHEDULE=first

rocm-test: $(dev_stamp)
	$(EMULATED) $(RUN) -m nbfused rocm build
	$(LAST) $(RUN) -m pytest -n $(JOBS) -m rocm $(PYTEST)
	$(FIRST) $(RUN) -m pytest -n $(JOBS) -m rocm $(SCHEDULED) $(PYTEST)

# A part of it: the backend's own tests, every op, what users write, in waves of 64.
SAMPLED := tests/rocm tests/test_conformance.py tests/acceptance \
	tests/kernels/cupy/test_c_semantics.py

rocm-sample: $(dev_stamp)
	$(EMULATED) $(RUN) -m nbfused rocm build
	$(LAST) $(RUN) -m pytest -n $(JOBS) -m "rocm and not variants" $(SAMPLED) $(PYTEST)

# For AMD devices by hipcc, which needs none: every kernel of the ops, without spills, and
# every operation, where float32 stays out of float64.
ARCHS ?= gfx906,gfx908,gfx90a,gfx1030

rocm-build: $(dev_stamp)
	NBFUSED_ROCM_EMULATE=0 $(RUN) -m nbfused rocm build --arch $(ARCHS) --check
	$(RUN) -m pytest -m variants tests/scalar/printing/test_print_hip_compile.py $(PYTEST)

# The table of nbfused and its peers: DEVICE=cuda, BENCHMARK="--only layer_norm".
DEVICE ?= cpu

benchmark: $(dev_stamp)
	$(RUN) -m benchmarks.peers --device $(DEVICE) $(BENCHMARK)

# The site, with every warning an error, so all is read anew (-E); pictures are kept. It
# needs no network once Sphinx is installed.
docs: $(docs_stamp)
	$(RUN) -m sphinx -E -W --keep-going -q -b html -d build/doctrees docs build/docs
	$(RUN) -m pytest -q docs/tests/test_site.py $(PYTEST)

# The same in Chromium, which has to be there: every page, search, narrow screens.
docs-browser: docs $(browser_stamp)
	$(RUN) -m pytest -q docs/tests/test_browser.py $(PYTEST)

# The public suite of the array API standard, of which ARRAY_API_TESTS is a checkout. Its
# files are given with "=", as pytest would look for settings beside a path on its own.
SUITE := $(CURDIR)/tests/array_api/public_suite

array-api-tests: $(dev_stamp)
	cd $(ARRAY_API_TESTS) && ARRAY_API_TESTS_MODULE=nbfused.array_api ARRAY_API_TESTS_VERSION=2024.12 \
		$(abspath $(RUN)) -m pytest -n $(JOBS) array_api_tests --skips-file=$(SUITE)/skips.txt \
		--xfails-file=$(SUITE)/xfails.txt --disable-deadline --max-examples 50 $(PYTEST)

clean:
	rm -rf $(VENV) build docs/gallery dist .asv .mypy_cache .pytest_cache .ruff_cache

# A candidate counts only if it runs: shims of version managers may exist and fail.
$(VENV)/.created:
	@for python in $(CANDIDATES); do \
	    "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	        2>/dev/null || continue; \
	    echo "creating $(VENV) with $$("$$python" -V)"; \
	    "$$python" -m venv --clear $(VENV) && touch $@ && exit 0; \
	done; \
	echo "no Python >= 3.11 with the modules venv and ensurepip among: $(CANDIDATES)" >&2; \
	echo "install one (Debian: apt install python3-venv) or set PYTHON=..." >&2; \
	exit 1

$(VENV)/.installed-%: $(VENV)/.created pyproject.toml
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[$(subst -,$(comma),$*)]'
	@touch $@
