.PHONY: help run worker join-code test test-faults chaos doctor check format demo lock export-matrix

help:
	@echo 'make run                       start Fovea; Ctrl-C stops it and saves running trainings'
	@echo 'make join-code                 let other hosts lend their devices; prints what to run there'
	@echo 'make worker JOIN=join.json     lend the devices of this host to the Fovea of another one'
	@echo 'make demo [DATA=file.zip] [EPOCHS=] [MODEL=] [TARGETS=]'
	@echo '                               from the bundled sample, or your images, to a verified bundle, through the API'
	@echo 'make doctor                    look the installation over, and say what to do'
	@echo 'make test [ARGS=tests/jobs]    run the tests that this machine can run'
	@echo 'make test-faults               every fault of the list once, into docs/faults.md'
	@echo 'make chaos [MINUTES=5] [SEED=] faults at random on three hosts and four jobs, a line more in docs/faults.md'
	@echo 'make check                     lint, types, contracts'
	@echo 'make format                    rewrite everything in the one format'
	@echo 'make export-matrix             every network to every target, into docs/exports.md (an hour)'
	@echo 'make lock                      resolve requirements/*.in into *.lock'

run:
	@scripts/install base
	@exec .venv/bin/python manage.py up

doctor:
	@scripts/install base
	@.venv/bin/python manage.py doctor

join-code:
	@scripts/install base
	@.venv/bin/python manage.py join_code

worker:
	@scripts/install base
	@exec .venv/bin/python -m config.start.join $(JOIN)

demo:
	@scripts/install base
	@exec .venv/bin/python scripts/demo.py

test:
	@scripts/install dev
	@scripts/node-tools
	@scripts/test $(ARGS)

test-faults:
	@scripts/install dev
	@scripts/test-faults $(ARGS)

chaos:
	@scripts/install dev
	@.venv/bin/python scripts/chaos.py --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) --page docs/faults.md

check:
	@scripts/install dev
	@scripts/node-tools
	@scripts/check

format:
	@scripts/install dev
	@scripts/node-tools
	@scripts/format

export-matrix:
	@scripts/install base
	@.venv/bin/python scripts/export_matrix.py --write docs/exports.md

lock:
	@scripts/install dev
	@cd requirements && for set in base web dev; do \
	  ../.venv/bin/pip-compile --quiet --no-header --strip-extras --allow-unsafe --output-file $$set.lock $$set.in; \
	  sed -i '/^--/d' $$set.lock; done  # where packages come from is the machine's own business
