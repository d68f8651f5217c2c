.DEFAULT_GOAL := help
.PHONY: help demo test race rules chart pictures lint fuzz bench microbench ci long release version module licence clean simulate

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

demo: ## run the whole job in one process and balance the books
	go run ./cmd/demo

test: ## run every test
	go test ./... ./proof/...

race: ## run every test with the race detector
	go test -race ./... ./proof/...

lint: ## gofmt, vet, staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./... ./proof/...
	go tool staticcheck ./... ./proof/...

rules: ## write the Prometheus operator's copy of the alert rules; DOCS_URL=https://… is where your people read docs/; then make chart
	@[ -z "$(DOCS_URL)" ] || sed -i -E 's|(runbook_url: ).*/(runbook\.md#)|\1$(DOCS_URL)/\2|' deployments/prometheus/alerts.yaml deployments/prometheus/alerts_test.yaml
	@out=deployments/kubernetes/overlays/production/prometheusrule.yaml; \
	{ sed '/^spec:/q' $$out; sed -n '/^groups:/,$$p' deployments/prometheus/alerts.yaml | sed 's/^\(.\)/  \1/'; } > $$out.new && mv $$out.new $$out

chart: ## make the Helm chart's templates of the Kubernetes manifests
	cd tools && GOWORK=off go test ./manifests -count=1 -run '^TestTheTemplatesAreMadeOfTheManifests$$' -update

pictures: ## make the console's pictures of docs/pictures anew, from a real run
	cd tools && GOWORK=off go test ./browser -count=1 -timeout 20m -run '^(TestPictures|TestDay)$$' -pictures

simulate: ## play 20,000 schedules of the settle protocol in simulated time
	go run ./proof/cmd/simulate

bench: ## compare orderpost with other job queues on a disk, and with the worker that users would write; about three quarters of an hour
	go run ./proof/cmd/bench

microbench: ## run the Go benchmarks
	go test -run '^$$' -bench . -benchmem ./internal/order ./internal/sign ./internal/submit ./internal/submit/http1 ./internal/submit/answer

ci: ## everything that decides whether a change lands
	bash .ci/run

long: ## what takes longer than a decision may: before a release, after a change of the protocol
	bash .ci/long

release: ## archives, deb, rpm, SBOMs, provenance and checksums for every platform, in dist/
	cd tools/release && GOWORK=off go run . $(if $(VERSION),--version $(VERSION)) $(if $(PLATFORMS),--platforms $(PLATFORMS))

version: ## VERSION=0.2.0: what this tree becomes
	@bash tools/owner.sh version "$(VERSION)"

module: ## MODULE=example.com/you/orderpost: where the module is hosted, in every file
	@bash tools/owner.sh module "$(MODULE)"

licence: ## LICENCE=Apache-2.0 TEXT=FILE: an SPDX identifier and the licence's text, in every file
	@bash tools/owner.sh licence "$(LICENCE)" "$(TEXT)"

clean: ## remove what was built
	rm -rf dist
