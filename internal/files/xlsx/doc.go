// Package xlsx reads the rows of a workbook's sheet and writes workbooks, in bounded
// memory, whatever the file holds.
//
//	book.go     a workbook: its parts, its sheets, and what it is if it is none
//	part.go     one part of the zip archive, bounded, with errors for people
//	scanner.go  XML, strict and bounded
//	styles.go   which cells are dates
//	strings.go  the texts that cells share, in memory or on disk
//	rows.go     the rows of a sheet
//	value.go    what is stored in a cell to what a person reads there
//	place.go    names of cells
//	writer.go   a workbook of one sheet
//
// It reads what ISO/IEC 29500 (Office Open XML) calls SpreadsheetML. It never calculates a
// formula: a cell with one has the value that the spreadsheet stored.
//
// The scanner is our own because a damaged sheet must never look like a short one: excelize
// (v2.11.1) ends its rows at the first error of the XML and returns none, and encoding/xml is
// half as fast as the check of a CSV file.
package xlsx
