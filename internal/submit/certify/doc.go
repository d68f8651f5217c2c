// Package certify learns how a test API behaves by sending it orders, and writes what follows for a worker: a rules file,
// settings, and a report of what was shown and what was not.
//
//	Learn     learn.go   the requests, one after another
//	conclude  judge.go   what the answers show
//	lookUp    lookup.go  how an order that exists is found, and the section for that
//	condition rules.go   conditions that tell an answer from all others, and the rules file
//	Findings  report.go  settings and report
//
// It concludes from answers alone. It writes no rule with `final`, and where it was not seen that the API refuses or
// recognises a repeated order number, the setting is park.
package certify
