.DEFAULT_GOAL := help
.PHONY: help demo test race upgrade rules lint fuzz bench microbench ci release clean simulate

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

demo: ## run the whole job in one process and balance the books
	go run ./cmd/demo

test: ## run every test
	go test ./...

race: ## run every test with the race detector
	go test -race ./...

upgrade: ## replace workers of an older revision (OLD_REVISION) one by one, and go back
	go test -tags upgrade -count=1 -timeout 10m -run '^TestRollingUpgrade$$' -v ./internal/e2e/fleet

lint: ## gofmt, vet, staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	go tool staticcheck ./...

rules: ## write the Prometheus operator's copy of the alert rules
	@out=deployments/kubernetes/overlays/production/prometheusrule.yaml; \
	{ sed '/^spec:/q' $$out; sed -n '/^groups:/,$$p' deployments/prometheus/alerts.yaml | sed 's/^\(.\)/  \1/'; } > $$out.new && mv $$out.new $$out

simulate: ## play 20,000 schedules of the settle protocol in simulated time
	go run ./cmd/simulate

bench: ## compare the worker with the loops that users would write; about ten minutes
	go run ./cmd/bench

microbench: ## run the Go benchmarks
	go test -run '^$$' -bench . -benchmem ./internal/order ./internal/sign ./internal/submit ./internal/submit/answer ./internal/sandbox

ci: ## everything that decides whether a change lands
	bash .ci/run

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64

release: ## static binaries for every platform, with checksums, in dist/
	@rm -rf dist && mkdir -p dist
	@for p in $(PLATFORMS); do \
	  os=$${p%/*}; arch=$${p#*/}; ext=; [ $$os = windows ] && ext=.exe; \
	  for c in orderpost sandbox; do \
	    name=orderpost; [ $$c = orderpost ] || name=orderpost-$$c; echo "$$os/$$arch $$name"; \
	    CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build -trimpath -ldflags '-s -w -buildid= -X orderpost/internal/program.release=$(VERSION)' -o dist/$$name-$(VERSION)-$$os-$$arch$$ext ./cmd/$$c || exit 1; \
	  done; \
	done
	@cd dist && sha256sum * > SHA256SUMS && cat SHA256SUMS
	@own=dist/orderpost-$(VERSION)-$$(go env GOHOSTOS)-$$(go env GOHOSTARCH); \
	  [ ! -x $$own ] || { $$own --version | tee /dev/stderr | grep -qF '$(VERSION)'; } || { echo "$$own does not tell its version"; exit 1; }

clean: ## remove what was built
	rm -rf dist
