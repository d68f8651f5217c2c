package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"orderpost/proof/bench/contender"
)

// api is the sink process.
type api struct {
	*process
	url     string // that orders are posted to
	seenURL string // that says what it saw
}

// startAPI starts the sink.
func (r *rig) startAPI(ctx context.Context, o contender.SinkOptions) (*api, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	a := &api{url: "http://" + addrs[0], seenURL: "http://" + addrs[0] + "/seen"}
	args := []string{"sink", "--addr", addrs[0], "--warm", fmt.Sprint(o.Warm), fmt.Sprintf("--transit=%v", o.Transit), "--answer-bytes", fmt.Sprint(o.AnswerBytes), fmt.Sprintf("--delay=%s", o.Delay)}
	if r.https {
		a.url = "https://" + addrs[1]
		args = append(args, "--tls-addr", addrs[1], "--tls-pair", r.pair)
	}
	p, err := start(r.dir, "sink", r.self, os.Environ(), args...)
	if err != nil {
		return nil, err
	}
	a.process = p
	for {
		if _, err = a.seen(ctx, false); err == nil {
			return a, nil
		}
		if ended := p.lookAgain(ctx); ended != nil {
			return nil, errors.Join(fmt.Errorf("the API: %w\n%s", ended, p.lastWords(errorLines, "")), p.stop())
		}
	}
}

func (a *api) seen(ctx context.Context, transits bool) (s contender.Seen, err error) {
	url := a.seenURL
	if transits {
		url += "?transits"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	defer func() { _ = resp.Body.Close() }()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}
