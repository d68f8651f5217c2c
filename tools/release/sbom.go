package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// sbom writes a CycloneDX document of what the go command has linked into a
// binary, as the binary itself says.
func (b *build) sbom(name, program, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	bom := bill(info, program, b.version, b.when)
	out, err := b.create(name)
	if err != nil {
		return err
	}
	encoder := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON)
	if err := encoder.SetPretty(true).Encode(bom); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

func bill(info *debug.BuildInfo, program, version string, when time.Time) *cdx.BOM {
	main := cdx.Component{BOMRef: program, Type: cdx.ComponentTypeApplication, Name: program, Version: version, Properties: settings(info)}
	compiler := cdx.Component{BOMRef: "std", Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, PackageURL: "pkg:golang/std@" + info.GoVersion[2:]}
	parts, needs := []cdx.Component{compiler}, []string{compiler.BOMRef}
	for _, d := range linked(info) {
		url := "pkg:golang/" + d.Path + "@" + d.Version
		part := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: d.Path, Version: d.Version, PackageURL: url}
		if d.Sum != "" {
			part.Properties = &[]cdx.Property{{Name: "go:sum", Value: d.Sum}} // go.sum's, which is no hash of one file
		}
		parts, needs = append(parts, part), append(needs, url)
	}
	bom := cdx.NewBOM()
	id := sha256.Sum256(fmt.Append(nil, program, version, info))
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceOID, id[:]).URN()
	bom.Metadata = &cdx.Metadata{Timestamp: when.Format(time.RFC3339), Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: program, Dependencies: &needs}}
	return bom
}

// linked are the modules of a binary, those that were replaced by what replaced
// them, in order.
func linked(info *debug.BuildInfo) []debug.Module {
	var out []debug.Module
	for _, d := range info.Deps {
		for d.Replace != nil {
			d = d.Replace
		}
		out = append(out, *d)
	}
	slices.SortFunc(out, func(x, y debug.Module) int {
		return cmp.Or(cmp.Compare(x.Path, y.Path), cmp.Compare(x.Version, y.Version))
	})
	return out
}

func settings(info *debug.BuildInfo) *[]cdx.Property {
	var out []cdx.Property
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED":
			out = append(out, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
		}
	}
	return &out
}
