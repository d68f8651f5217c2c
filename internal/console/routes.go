package console

import (
	"net/http"
	"path"
	"strings"

	"orderpost/internal/files/uploads"
	"orderpost/internal/platform/jobs"
)

// route is one thing that the console answers.
type route struct {
	// pattern is as in http.ServeMux, such as "GET /fleet".
	pattern string
	// need is the lowest role.
	need Role
	// does completes "… needs the role operator" for whoever is refused, such as
	// "Holding the fleet".
	does string
	// free is why the form of a POST route needs not carry what its page showed (the field
	// "seen"); empty = it must.
	free  string
	serve func(*visit) error
}

// routes returns what the console answers, and to whom.
func routes() (all []route) {
	page := func(path string, need Role, does string, serve func(*visit) error) {
		all = append(all, route{"GET " + path, need, does, "", serve})
	}
	form := func(path string, need Role, does string, serve func(*visit) error) {
		all = append(all, route{"POST " + path, need, does, "", serve})
	}
	free := func(path string, need Role, does, why string, serve func(*visit) error) {
		all = append(all, route{"POST " + path, need, does, why, serve})
	}
	act := func(path string, need Role, does string, serve func(*visit) error) { // see confirmation
		page(path, need, does, serve)
		form(path, need, does, serve)
	}

	page("/login", Anybody, "", openLogin)
	free("/login", Anybody, "", "it asks for a name and a password, and shows nothing", logIn)
	free("/login/link", Anybody, "", "it shows nothing but a button", printLink)
	free("/logout", Anybody, "", "it ends the session of its own browser, whatever that shows", logOut)
	free("/refresh", Viewer, "This", "it sets how the pages of its own browser behave", setRefresh)

	page("/{$}", Viewer, "The overview", showOverview)
	page("/order", Viewer, "An order's page", showOrder)
	page("/pending", Viewer, "The list of pending orders", showPending)
	page("/waiting", Viewer, "The waiting room", showWaiting)
	page("/journal", Viewer, "The journal", showJournal)
	page("/books", Viewer, "The books", showBooks)
	free("/books", Viewer, "An audit", "an audit changes nothing, and one runs at a time", startAudit)
	free("/books/stop", Viewer, "Stopping an audit", "it carries the id of one audit, which never names another", stopAudit)

	page("/fleet", Viewer, "The fleet", showFleet)
	act("/fleet/hold", Operator, "Holding the fleet", ofFleet(holdFleet))
	act("/fleet/resume", Operator, "Resuming the fleet", ofFleet(resumeFleet))
	act("/fleet/limit", Operator, "Limiting the fleet", ofFleet(limitFleet))

	page("/letters", Viewer, "The list of dead letters", showLetters)
	form("/letters/act", Operator, "Acting on dead letters", planGroup)
	form("/letters/export", Importer, "Exporting dead letters", planExport) // orders have bodies
	page("/letters/{seq}", Viewer, "A dead letter's page", showLetter)
	act("/letters/{seq}/replay", Operator, "Replaying a dead letter", ofLetter(replayLetter))
	act("/letters/{seq}/resolve", Operator, "Resolving an order", ofLetter(resolveOrder))
	act("/letters/{seq}/drop", Operator, "Dropping a dead letter", ofLetter(dropLetter))
	free("/letters/{seq}/correct", Importer, "Correcting an order", "it brings a new file, and does nothing to the dead letter", files(correctLetter))

	page("/jobs", Viewer, "The list of jobs", showJobs)
	page("/jobs/{id}", Viewer, "A job", ofJob(showJob))
	free("/jobs/{id}/stop", Viewer, "Stopping a job", "its address has the id of one job, which never names another", ofJob(stopJob))
	act("/jobs/{id}/confirm", Operator, "Acting on dead letters", ofJob(confirmGroup))
	form("/jobs/{id}/save", Importer, "Exporting dead letters", ofJob(saveExport))

	page("/imports", Viewer, "The list of imports", showImports)
	page("/import", Viewer, "An import's page", showImport)
	act("/import/cancel", Importer, "Cancelling an import", cancelImport)
	act("/import/pause", Importer, "Pausing an import", pauseImport)
	act("/import/resume", Importer, "Letting an import go on", resumeImport)

	page("/approvals", Viewer, "The list of approvals", showApprovals)
	page("/approval", Importer, "What waits for an approval", showApproval)
	act("/approval/approve", Importer, "Approving", approve)
	act("/approval/refuse", Importer, "Refusing", refuse)

	page("/upload", Importer, "Uploading files", files(showUploads))
	free("/upload", Importer, "Uploading files", "it brings a new file, and is about nothing that is there", files(receiveUpload))
	page("/upload/template", Importer, "A file to begin with", files(templateFile))
	page("/upload/{id}", Importer, "The page of an upload", ofUpload(showUpload))
	form("/upload/{id}/check", Importer, "Checking a file", ofUpload(checkUpload))
	form("/upload/{id}/accept", Importer, "Checking a file", ofUpload(acceptMapping))
	form("/upload/{id}/header", Importer, "Checking a file", ofUpload(chooseHeader))
	form("/upload/{id}/correct", Importer, "Correcting a file", ofUpload(correctRows))
	form("/upload/{id}/import", Importer, "Importing a file", ofUpload(importUpload))
	form("/upload/{id}/stop", Importer, "Stopping an import", files(stopUpload))
	act("/upload/{id}/remove", Importer, "Removing a file", ofUpload(removeUpload))
	page("/upload/{id}/mapping", Importer, "The mapping of a file", ofUpload(mappingFile))
	form("/upload/{id}/columns", Importer, "Checking a file", ofUpload(loadMapping))
	page("/upload/{id}/rejects", Importer, "The bad rows of a file", ofUpload(rejectsFile))
	page("/upload/{id}/results", Importer, "The results of a file", ofUpload(resultsFile))
	page("/upload/{id}/rows", Importer, "The rows of a file", ofUpload(showRows))
	page("/upload/{id}/events", Importer, "The progress of an upload", ofUpload(uploadEvents))
	return all
}

// files serves what needs the folder of uploaded files.
func files(serve func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		if v.s.desk == nil {
			return &problem{status: http.StatusServiceUnavailable, what: "This console takes no uploads.", todo: sentence(v.s.noUploads)}
		}
		return refusal(serve(v))
	}
}

// ofUpload serves what is about the upload that the address names.
func ofUpload(serve func(*visit, *uploads.Look) error) func(*visit) error {
	return files(func(v *visit) error {
		u, err := v.s.desk.Look(v.PathValue("id"))
		if err != nil {
			return err
		}
		return serve(v, &u)
	})
}

// ofJob serves what is about the job that the address names.
func ofJob(serve func(*visit, *jobs.Job) error) func(*visit) error {
	return func(v *visit) error {
		job := v.s.jobs.Find(v.PathValue("id"))
		if job == nil {
			return noJob()
		}
		return serve(v, job)
	}
}

func noJob() error {
	return notFound("This job is not known any more. The console remembers the last ones until it is started again.", "The journal has what was done.")
}

// Handler returns the console's pages.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	known := make(map[string]bool)
	for _, rt := range routes() {
		known[rt.pattern] = true
		mux.Handle(rt.pattern, s.handler(rt))
	}
	for _, rt := range routes() {
		if at, form := strings.CutPrefix(rt.pattern, "POST "); form && !known["GET "+at] {
			mux.Handle("GET "+at, s.handler(route{need: min(rt.need, Viewer), does: "This page", serve: formAddress}))
		}
	}
	mux.Handle("GET /static/{hash}/{file}", http.HandlerFunc(serveStatic))
	mux.Handle("GET /favicon.ico", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, staticURL("icon.svg"), http.StatusFound)
	}))
	mux.Handle("/", s.handler(route{need: Viewer, does: "This page", serve: func(*visit) error {
		return notFound("There is no such page.", "Choose one from the menu.")
	}}))
	return s.guard(mux)
}

// formAddress answers whoever opens the address of a form, which is in the address bar
// after a refusal. It leads to the page that has the form.
func formAddress(v *visit) error {
	return v.done(path.Dir(v.URL.Path), "This address only takes a form, so nothing was done. Here is the page that it belongs to.")
}
