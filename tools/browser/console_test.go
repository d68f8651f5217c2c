package browser

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLogin: the link lets in once, and nothing else does.
func TestLogin(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	link := s.link()
	for _, scripts := range []bool{true, false} {
		p := s.visitor(scripts)
		p.expects("401")
		s.open(p, "/fleet")
		p.sees("Open the link that was printed in the terminal")
		require.Contains(t, p.at(), "/login?back=%2Ffleet")
		p.goTo("http://" + s.address + "/login?token=WRONG")
		p.sees("This is not a link that this console has printed since it was started.")
		p.accessible("a refused login")
		if scripts {
			p.goTo(link)
			p.sees("Gate of the fleet")
			require.Equal(t, "http://"+s.address+"/", p.at(), "the secret is not in the address bar")
		} else {
			p.goTo(link)
			p.sees("This link was used already.")
		}
	}
}

// TestPasswords: a person from the file of users, who may not do everything.
func TestPasswords(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.console.stop()
	s.env = append(s.env, "ORDERPOST_CONSOLE_USERS="+s.user("vera", "viewer", "a long password"))
	s.startConsole()
	for _, scripts := range []bool{true, false} {
		p := s.visitor(scripts)
		p.expects("401")
		s.open(p, "/")
		p.accessible("the form with a password")
		p.fill("Name", "vera")
		p.fill("Password", "a long passwort")
		p.click("Log in")
		p.sees("This name and password do not belong together.")
		p.accessible("a refused password")
		p.fill("Name", "vera")
		p.fill("Password", "a long password")
		p.click("Log in")
		p.sees("Gate of the fleet")
		p.sees("vera viewer")
	}
}

// TestARestart: a page that is left open says that it is old, and goes on by itself.
func TestARestart(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	p := s.loggedIn(true)
	p.expects("Failed to load resource") // while the console is away
	p.sees("1 worker sends orders.")

	s.worker.kill() // and the broker within it
	p.sees("The broker is out of reach since")
	p.sees("What you see is from before.")
	p.accessible("a page without a broker")
	s.startWorker()
	p.until("the page is back", func() bool { return !contains(p, "out of reach") && contains(p, "1 worker sends orders.") })

	s.console.kill()
	p.sees("The console does not answer since")
	p.accessible("a page without a console")
	s.startConsole()
	p.sees("Open the link that was printed in the terminal") // the login was in its memory
	require.Contains(t, p.at(), "/login")
	p.goTo(s.link())
	p.sees("1 worker sends orders.")
}

// TestPaused: a page whose updates were paused stays as it is, until it is told to go
// on.
func TestPaused(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	p := s.loggedIn(true)
	p.click("Stop updating")
	p.sees("This page does not update itself.")
	p.accessible("a paused page")
	s.orderpost(0, "hold", "--reason", "seen from afar")
	require.NotContains(t, p.text(), "seen from afar")
	p.click("Update every 3 seconds")
	p.sees("seen from afar")
	p.sees("Nothing is sent since")
	s.orderpost(0, "resume")
	p.sees("1 worker sends orders.")
	require.NotContains(t, p.text(), "Nothing is sent since", "the banner is refreshed with the page")
	s.orderpost(0, "hold", "--reason", "once more")
	p.sees("Nothing is sent since")
	p.accessible("a page with the banner")
	s.orderpost(0, "resume")
}

// TestHoldAndResume: each with the page that says what will happen, and the journal
// afterwards.
func TestHoldAndResume(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, scripts := range []bool{true, false} {
		watcher, p := s.loggedIn(true), s.loggedIn(scripts)
		p.click("Hold…")
		p.sees("stops posting within a second")
		p.fill("Reason (optional)", "maintenance of the API")
		p.accessible("holding")
		p.click("Hold the fleet")
		p.sees("maintenance of the API")
		watcher.sees("maintenance of the API") // without a click
		watcher.accessible("a held fleet")
		p.click("Resume…")
		p.accessible("resuming")
		p.click("Resume the fleet")
		watcher.sees("1 worker sends orders.")
		p.click("Books & journal")
		p.sees("Balance the books")
		p.click("Journal")
		p.sees("maintenance of the API")
	}
}
