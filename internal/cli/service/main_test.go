package service_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"orderpost/internal/testing/patient"
)

// These tests wait for a broker's patience, not for a processor.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	patient.Main(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}
