module orderpost/tools/release

go 1.26.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/goreleaser/nfpm/v2 v2.48.0
	github.com/google/uuid v1.6.0
	github.com/spf13/cobra v1.10.2
	github.com/stretchr/testify v1.12.1
	orderpost v0.0.0
)

replace orderpost => ../..
