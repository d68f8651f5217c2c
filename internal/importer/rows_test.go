//go:build !race

package importer

// excelRows is the size of the file as Excel writes it.
const excelRows = 40_000

// bombMemory is the most memory in MB that a hostile workbook may take.
const bombMemory = 200.0
