// Package approval lets two people agree: it notes who uploaded an import or asked for an act,
// approves and refuses it, each with its entries in the journal, and checks both against each
// other.
//
//	rule.go    the rule of a worker's setting becomes the fleet's
//	ask.go     every act of a person begins here; one that needs a second person is stored
//	decide.go  upload, approve, refuse
//	carry.go   a worker does the acts that were approved
//	audit.go   does the journal have what was approved?
//
// What needs an approval, and what one covers, is in package fleet/imports. The feeder of package
// waiting keeps it for imports: it moves nothing of one that lacks it.
package approval
