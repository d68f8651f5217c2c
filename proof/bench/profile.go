package bench

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// profileSeconds is shorter than the trial.
const profileSeconds = 2

// takeProfiles reads CPU profiles of the worker and of the servers while they
// work. Those of the servers go to files beside the worker's.
func (s *stage) takeProfiles() {
	time.Sleep(500 * time.Millisecond) // past its start; how far exactly does not matter
	var all sync.WaitGroup
	take := func(addr, path string) {
		all.Go(func() {
			if err := takeProfile(addr, path, profileSeconds); err != nil {
				s.say("no profile: %v", err)
			}
		})
	}
	take(s.profileAddr, s.profile)
	for i, addr := range s.broker.profiles {
		take(addr, fmt.Sprintf("%s.nats-server-%d", s.profile, i+1))
	}
	all.Wait()
}

func takeProfile(addr, path string, seconds int) error {
	resp, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", addr, seconds))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
