.PHONY: help run test check format demo lock export-matrix

help:
	@echo 'make run                       start Fovea; Ctrl-C stops it and saves running trainings'
	@echo 'make demo [DATA=file.zip] [EPOCHS=] [MODEL=] [TARGETS=]'
	@echo '                               from the bundled sample, or your images, to a verified bundle, through the API'
	@echo 'make test [ARGS=tests/jobs]    run the tests that this machine can run'
	@echo 'make check                     lint, types, contracts'
	@echo 'make format                    rewrite everything in the one format'
	@echo 'make export-matrix             every network to every target, into docs/exports.md (an hour)'
	@echo 'make lock                      resolve requirements/*.in into *.lock'

run:
	@scripts/install base
	@exec .venv/bin/python manage.py up

demo:
	@scripts/install base
	@exec .venv/bin/python scripts/demo.py

test:
	@scripts/install dev
	@scripts/node-tools
	@scripts/test $(ARGS)

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
	@cd requirements && for set in base dev; do \
	  ../.venv/bin/pip-compile --quiet --no-header --strip-extras --allow-unsafe --output-file $$set.lock $$set.in; \
	  sed -i '/^--/d' $$set.lock; done  # where packages come from is the machine's own business
