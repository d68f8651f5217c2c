// Package console is a web page for people who import files and people on call. It
// shows what the streams hold and lets people act on it, by the rules of package
// settle. It talks to the broker only, never to the API.
//
// The frame:
//
//	config.go    settings
//	server.go    the HTTP server, the routes, and what stands around each
//	visit.go     one request: role, form, flash, errors as sentences
//	guard.go     headers, names, forged requests, proxies
//	login.go, session.go, users.go, role.go  who may do what
//	confirm.go   the page that says what an act will do, before it does it
//	acting.go    carrying out an act, with its entries in the journal
//	render.go, format.go  templates, and how values are written
//
// To add a page: a route in a function of its own that server.go joins, a template
// of the page's name in templates, and a line in the menu (render.go). Templates
// define "live", which the page refreshes by itself, and "above" and "content", which
// it does not.
//
// What is read for all viewers at once:
//
//	watch.go     one reading for everybody, while somebody looks
//	minutes.go   orders settled per minute
//	batches.go   outcomes by import
//	letters.go   the index of dead letters (package books)
//
// The other files are pages.
package console
