package service

import "time"

// Looking makes a worker look more often whether its streams are there.
func (e Env) Looking(every time.Duration) Env {
	e.look = every
	return e
}
