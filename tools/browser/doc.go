// Package browser tests the pages of orderpost in a real Chromium:
//
//	chromium_test.go  one Chromium for all tests
//	page_test.go      a tab: what a person does in it, and what it must never do
//	axe_test.go       axe-core on a page, in both colour schemes, at both widths
//	stage_test.go     the real programs that the pages are about
//	story_test.go     one day of a person, from a bad file to the journal
//	day_test.go       the day of two people and a workbook, with its pictures
//	tab_test.go       the tests of all these, on a page of their own
//
// A page fails its test when it writes to the browser's console (a script error, a
// violation of the Content-Security-Policy) or asks another host for anything.
//
// The tests need Chromium: apt install chromium, or ORDERPOST_CHROMIUM=/path/to/it.
package browser
