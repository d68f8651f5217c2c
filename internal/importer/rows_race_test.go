//go:build race

package importer

// excelRows is less under the race detector, which is many times slower.
const excelRows = 8_000

// bombMemory is the most memory in MB that a hostile workbook may take.
const bombMemory = 2000.0 // the race detector shadows every byte
