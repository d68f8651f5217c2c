// Package console is a web page for people who import files and people on call. It
// shows what the streams hold and lets people act on it, by the rules of package
// settle. It talks to the broker only, never to the API.
//
// The frame:
//
//	config.go    settings
//	server.go    the HTTP server, and what stands around each request
//	routes.go    what the console answers, and who may do what
//	visit.go     one request: role, form, flash, errors as sentences
//	guard.go     headers, names, forged requests, proxies
//	users.go, login.go, session.go  people, their rights, and logins
//	limits.go    how many connections an address may have, and requests at once
//	confirm.go   the page that says what an act will do, and the act with its entries in the journal
//	render.go, format.go  templates, style and script, and how values are written
//
// To add a page: a line in routes.go, a template of the page's name in templates, and a
// line in the menu (render.go). Templates define "live", which the page refreshes by
// itself, and "above" and "content", which it does not.
//
// What is read for all viewers at once:
//
//	watch.go     one reading for everybody, while somebody looks
//	minutes.go   orders settled per minute
//	batches.go   outcomes by import
//	letterlist.go  the index of dead letters (package deadletter), and a page of them
//
// What several pages share: overview.go says whether the fleet sends, and if not, why; alike.go finds
// order numbers that look like another one; lastorders.go lists the last orders; questions.go, the cells that a check asks about;
// decide.go approves and refuses; receive.go takes a file, handout.go and exportacts.go hand one out; columnsform.go reads what a person says of columns.
//
// The pages: overview.go, searchpage.go, orderpage.go, letterpage.go (letteracts.go,
// groupacts.go), waitingpage.go, pendingpage.go, importspage.go, uploadpage.go, rowspage.go, approvalpage.go,
// actpage.go, jobspage.go, journalpage.go, bookspage.go, and fleetacts.go for the fleet's.
package console
