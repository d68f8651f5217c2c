//go:build race

package importer

// excelRows is less under the race detector, which is many times slower.
const excelRows = 8_000
