.DEFAULT_GOAL := help
.PHONY: help demo test race upgrade rules pictures lint fuzz bench microbench ci release clean simulate

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

demo: ## run the whole job in one process and balance the books
	go run ./cmd/demo

test: ## run every test
	go test ./...

race: ## run every test with the race detector
	go test -race ./...

upgrade: ## replace workers of an older revision (OLD_REVISION) one by one, and go back
	go test -tags upgrade -count=1 -timeout 10m -run '^TestRollingUpgrade' -v ./internal/e2e/fleet

lint: ## gofmt, vet, staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	go tool staticcheck ./...

rules: ## write the Prometheus operator's copy of the alert rules
	@out=deployments/kubernetes/overlays/production/prometheusrule.yaml; \
	{ sed '/^spec:/q' $$out; sed -n '/^groups:/,$$p' deployments/prometheus/alerts.yaml | sed 's/^\(.\)/  \1/'; } > $$out.new && mv $$out.new $$out

pictures: ## make the pictures of docs/pictures anew, from real runs
	cd tools && go run ./pictures
	cd tools && go test ./browser -count=1 -timeout 20m -run '^TestPictures$$' -pictures

simulate: ## play 20,000 schedules of the settle protocol in simulated time
	go run ./cmd/simulate

bench: ## compare the worker with the loops that users would write; about forty minutes
	go run ./cmd/bench

microbench: ## run the Go benchmarks
	go test -run '^$$' -bench . -benchmem ./internal/order ./internal/sign ./internal/submit ./internal/submit/answer ./internal/sandbox

ci: ## everything that decides whether a change lands
	bash .ci/run

release: ## archives, deb, rpm, SBOMs and checksums for every platform, in dist/
	cd tools/release && go run . $(if $(VERSION),--version $(VERSION)) $(if $(PLATFORMS),--platforms $(PLATFORMS))

clean: ## remove what was built
	rm -rf dist
