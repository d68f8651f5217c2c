// Package importer turns files into intents and says what became of each row.
//
// An import reads its file twice: once to check every row, and only if all of
// them can be sent, a second time to publish them. The batch id is a hash of
// the content and each row's submission is named <batch>:<row>, so that the
// same command run again enqueues nothing twice.
package importer
