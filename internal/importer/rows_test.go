//go:build !race

package importer

// excelRows is the size of the file as Excel writes it.
const excelRows = 40_000
