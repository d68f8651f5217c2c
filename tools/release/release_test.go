package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"
)

func TestPackageVersion(t *testing.T) {
	when := time.Unix(1_700_000_000, 0)
	for describe, want := range map[string]string{
		"v1.2.0":               "1.2.0",
		"v1.2.0-rc1":           "1.2.0~rc1",
		"v1.2.0-rc.2-5-gabcde": "1.2.0~rc.2+5.gabcde",
		"v1.2.0-7-gabcdef0":    "1.2.0+7.gabcdef0",
		"v1.2.0-dirty":         "1.2.0+dirty",
		"57b062a":              "0.0.0~20231114221320.57b062a",
		"57b062a-dirty":        "0.0.0~20231114221320.57b062a.dirty",
	} {
		require.Equal(t, want, packageVersion(describe, when))
	}
}

// TestPackageVersionsSort asks dpkg, which decides what an upgrade is.
func TestPackageVersionsSort(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Log("no dpkg here to ask")
		return
	}
	early, late := time.Unix(1_700_000_000, 0), time.Unix(1_700_000_001, 0)
	sorted := []string{packageVersion("ffffff", early), packageVersion("000000", late), packageVersion("v1.2.0-rc1", early), packageVersion("v1.2.0-rc1-3-gabc", early),
		packageVersion("v1.2.0", early), packageVersion("v1.2.0-7-gabc", early), packageVersion("v1.2.1", early)}
	for i := range sorted[1:] {
		require.NoError(t, exec.Command(dpkg, "--compare-versions", sorted[i], "lt", sorted[i+1]).Run(), "%s < %s", sorted[i], sorted[i+1])
	}
}

// TestBill: the SBOM of this test's own binary names every module in it, and is
// the same each time.
func TestBill(t *testing.T) {
	info, err := buildinfo.ReadFile(os.Args[0])
	require.NoError(t, err)
	when := time.Unix(1_700_000_000, 0).UTC()
	var first, second bytes.Buffer
	require.NoError(t, cdx.NewBOMEncoder(&first, cdx.BOMFileFormatJSON).Encode(bill(info, "orderpost", "v1.2.3", when)))
	require.NoError(t, cdx.NewBOMEncoder(&second, cdx.BOMFileFormatJSON).Encode(bill(info, "orderpost", "v1.2.3", when)))
	require.Equal(t, first.String(), second.String())
	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(&first, cdx.BOMFileFormatJSON).Decode(&bom))
	require.Equal(t, "2023-11-14T22:13:20Z", bom.Metadata.Timestamp)
	require.Len(t, *bom.Components, len(info.Deps)+1)
	require.True(t, slices.ContainsFunc(*bom.Components, func(c cdx.Component) bool {
		return strings.HasPrefix(c.PackageURL, "pkg:golang/github.com/CycloneDX/cyclonedx-go@v")
	}))
}

// TestProvenance: it names each file by its checksum and what it was made of, and is the same
// each time.
func TestProvenance(t *testing.T) {
	b := &build{out: t.TempDir(), version: "v1.2.3", commit: strings.Repeat("ab", 20), when: time.Unix(1_700_000_000, 0)}
	require.NoError(t, os.WriteFile(filepath.Join(b.out, "orderpost.deb"), []byte("abc"), 0o600))
	b.made = []string{"orderpost.deb"}
	require.NoError(t, b.provenance([]string{"linux/amd64"}))
	first, err := os.ReadFile(filepath.Join(b.out, "provenance.json"))
	require.NoError(t, err)
	require.Contains(t, string(first), `"sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"`)
	require.Contains(t, string(first), `"gitCommit": "`+b.commit+`"`)
	require.Contains(t, b.made, "provenance.json", "it has a checksum, too")
	b.made = []string{"orderpost.deb"}
	require.NoError(t, b.provenance([]string{"linux/amd64"}))
	second, err := os.ReadFile(filepath.Join(b.out, "provenance.json"))
	require.NoError(t, err)
	require.Equal(t, string(first), string(second))
}

// TestOurLicence is in every archive once there is one.
func TestOurLicence(t *testing.T) {
	b := &build{root: t.TempDir(), shared: []file{{path: "README.md"}, {path: "NOTICES"}}}
	require.Empty(t, b.ownLicence())
	require.Len(t, b.notices(), 1)
	require.NoError(t, os.WriteFile(filepath.Join(b.root, "LICENSE"), []byte("You may.\n"), 0o600))
	b.shared = append(b.shared, b.ownLicence()...)
	var names []string
	for _, f := range b.notices() {
		body, err := f.bytes()
		names = append(names, f.path+" "+string(body))
		require.NoError(t, err)
	}
	require.Equal(t, []string{"NOTICES ", "LICENSE You may.\n"}, names)
}
