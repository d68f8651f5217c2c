package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// piece is one piece of a soak, and a line of pieces.jsonl.
type piece struct {
	Number  int       `json:"piece"`
	Command string    `json:"command"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Broker  string    `json:"broker"`
	Rate    float64   `json:"rate"`
	Workers int       `json:"workers"`
	Orders  int       `json:"orders"`
	Lost    int       `json:"lost"`
	Doubled int       `json:"doubled"`
	// Samples holds the values of each measure of each process, with the hours since
	// the piece began.
	Samples map[string][]point `json:"samples"`
}

// MarshalJSON implements json.Marshaler.
func (p point) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "[%.5f,%.2f]", p.Hours, p.Value), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *point) UnmarshalJSON(text []byte) error {
	var two [2]float64
	err := json.Unmarshal(text, &two)
	p.Hours, p.Value = two[0], two[1]
	return err
}

func (p *piece) add(name string, hours, value float64) {
	if p.Samples == nil {
		p.Samples = make(map[string][]point)
	}
	p.Samples[name] = append(p.Samples[name], point{hours, value})
}

func piecesFile(state string) string { return filepath.Join(state, "pieces.jsonl") }

// save appends the piece to the file of its state.
func (p *piece) save(state string) error {
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(piecesFile(state), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// readPieces reads the pieces that a state has.
func readPieces(state string) (all []piece, err error) {
	f, err := os.Open(piecesFile(state))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for in := json.NewDecoder(bufio.NewReader(f)); ; {
		var p piece
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: piece %d: %w", f.Name(), len(all)+1, err)
		}
		all = append(all, p)
	}
}

// windows is how many points of a measure a piece counts as. Memory goes up and down
// between two collections, so a point is the lowest value of its window. What leaks
// raises that, too. Samples that follow each other closely would also pretend to a
// certainty that they do not have.
const windows = 12

// within returns the points of a measure, one series a piece.
func within(pieces []piece, name string) (all [][]point) {
	for i := range pieces {
		samples := pieces[i].Samples[name]
		if len(samples) == 0 {
			continue
		}
		var series []point
		for part := range slices.Chunk(samples, max(1, (len(samples)+windows-1)/windows)) {
			low := part[0]
			for _, p := range part {
				low.Value = min(low.Value, p.Value)
			}
			series = append(series, low)
		}
		all = append(all, series)
	}
	return all
}

// between returns the median of each piece over the hours that the pieces took.
func between(pieces []piece, name string) [][]point {
	var series []point
	hours := 0.0
	for i := range pieces {
		p := &pieces[i]
		var values []float64
		for _, s := range p.Samples[name] {
			values = append(values, s.Value)
		}
		if len(values) > 0 {
			slices.Sort(values)
			series = append(series, point{hours + p.Seconds/7200, quantile(values, float64(len(values)-1)/2)})
		}
		hours += p.Seconds / 3600
	}
	return [][]point{series}
}

func sortedNames(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }
