# Every command of the project. Settings follow the target: make up PORT=9000 DATA_DIR=/somewhere

# The first Python that will do; make up PYTHON=/path/to/python names another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	"$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null \
	&& command -v "$$python" && break; done)
INSTALLATION = $(if $(PYTHON),$(PYTHON) -m installation,$(error Talkback needs Python 3.11, 3.12 or 3.13: install one, or name it with make PYTHON=/path/to/python))
VENV = .venv/bin
ONE_THREAD = OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
PYTEST = $(ONE_THREAD) $(VENV)/python -m pytest -q
# Where this is set, as in many containers, each process compiles all that it imports: 12 s before torch is there.
unexport PYTHONDONTWRITEBYTECODE
ARGS ?=
OUT ?= var/evidence
SEEDS ?= 1,2,3

.DEFAULT_GOAL := help
.PHONY: help up down doctor model install test test-all test-tools test-sglang test-openclaw lint pages languages types bench evidence worlds clean

help: ## say what each target does
	@echo "Talkback: make TARGET [SETTING=value ...]"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' Makefile | expand -t 16
	@echo
	@echo "Settings: PORT (8000), DATA_DIR (var), MODEL, PROFILE (embedded or gpu), and those of docs/reference/settings.md"

up: ## install what is missing and start everything; Ctrl-C stops it
	@$(INSTALLATION) up

down: ## stop what runs on DATA_DIR, from another shell
	@$(INSTALLATION) down

doctor: ## say what is fine, what is wrong, and what to do about it
	@$(INSTALLATION) doctor

model: ## install, download and convert the small model, and start nothing
	@$(INSTALLATION) install
	@$(INSTALLATION) model

install: ## the environment with all that developers need
	@$(INSTALLATION) install dev browser postgres

test: test-tools ## the tests, on SQLite and (what commits for good) PostgreSQL; the last lines name what was left out
	@$(VENV)/python -m tests.run $(ARGS)

test-all: test-tools ## the tests, those that start and kill real processes, and those against the real SGLang
	@$(VENV)/python -m tests.run --all $(ARGS)

# What cannot be brought here is no failure: its tests are left out, and the last lines say so.
test-tools: install
	@$(INSTALLATION) packages
	@-$(INSTALLATION) install worlds
	@-$(VENV)/python -m pip install --quiet --no-deps miniwob==1.1.0
	@-$(INSTALLATION) model
	@-$(VENV)/python tests/clients/javascript/install.py

test-sglang: install ## the engine's contract, held by the real SGLang on the CPU and by ours
	@$(INSTALLATION) model
	@$(VENV)/python docker/sglang_cpu/install.py
	@$(PYTEST) tests/contract $(ARGS)

test-openclaw: install ## the real OpenClaw client against a live Talkback; brings the client, 770 MB
	@-$(INSTALLATION) model
	@$(VENV)/python tests/clients/openclaw/install.py
	@$(PYTEST) tests/clients/openclaw $(ARGS)

lint: install ## style, layers, templates, and words that name no actor
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check .
	@$(VENV)/lint-imports --no-logo
	@$(VENV)/djade --check $$(git ls-files 'templates/*.html')
	@$(VENV)/python .ci/words.py

pages: test-tools ## a picture of each page, light, dark and on a phone, in artefacts/pages/ (or PICTURES_IN=folder)
	@PAGES_PICTURES=1 $(PYTEST) tests/browser/test_axe_in_browser.py $(ARGS)

languages: install ## write new words of pages into locale/, and say what no language has yet
	@$(VENV)/python -m tests.webapp.languages.catalogues --update

types: install ## mypy, strict on the pure modules
	@$(VENV)/mypy

bench: install ## how fast it is here
	@$(INSTALLATION) model
	@$(ONE_THREAD) $(VENV)/python -m benchmarks $(ARGS)

evidence: ## whether talking helps, and what it costs: arms, seeds, a report (ARMS, SEEDS, PERSONAS, PROMPTS, OUT, QUICK=1)
	@$(INSTALLATION) install lab
	@$(if $(MODEL),,$(INSTALLATION) model)
	@$(ONE_THREAD) $(VENV)/python -m lab.evidence --out $(OUT) --seeds $(SEEDS) \
		$(if $(ARMS),--arms $(ARMS)) $(if $(MODEL),--model $(MODEL)) $(if $(PERSONAS),--personas $(PERSONAS)) \
		$(if $(PROMPTS),--prompts $(PROMPTS)) $(if $(QUICK),--quick) $(ARGS)

# OUT is shared with evidence's: unless it is given, the page has a folder of its own. So has SEEDS: one takes half an hour.
worlds: ## whether an agent learns by playing: a page, a last line of JSON (WORLD, SEEDS, OUT, ARMS; SMOLLM=1 or MODEL in place of the tiny model)
	@$(INSTALLATION) install lab
	@$(if $(TINY)$(MODEL),,$(if $(SMOLLM),$(INSTALLATION) model))
	@$(ONE_THREAD) $(VENV)/python -m lab.worlds --out $(if $(filter file,$(origin OUT)),var/worlds,$(OUT)) \
		--seeds $(if $(filter file,$(origin SEEDS)),1,$(SEEDS)) $(if $(TINY),--tiny) $(if $(SMOLLM),--smollm) $(if $(WORLD),--world $(WORLD)) $(if $(ARMS),--arms $(ARMS)) \
		$(if $(MODEL),--model $(MODEL)) $(ARGS)

clean: ## remove the environment and the caches; DATA_DIR stays
	@$(INSTALLATION) clean
