package bench

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/program/bench/contender"
)

// contenders are hidden commands: the bench starts itself with them.
func contenders() []*cobra.Command {
	return []*cobra.Command{sinkCommand(), bareCommand(), workerCommand("usual", contender.RunUsual), workerCommand("lean", contender.RunLean),
		workerCommand("checked", contender.RunChecked)}
}

func sinkCommand() *cobra.Command {
	var o contender.SinkOptions
	cmd := &cobra.Command{Use: "sink", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return contender.RunSink(cmd.Context(), o) }}
	f := cmd.Flags()
	f.StringVar(&o.Addr, "addr", "", "")
	f.StringVar(&o.Cert, "cert", "", "")
	f.StringVar(&o.Key, "key", "", "")
	f.BoolVar(&o.HTTP2, "http2", false, "")
	f.DurationVar(&o.Latency, "latency", 0*time.Second, "")
	f.Int64Var(&o.Warm, "warm", 0, "")
	f.BoolVar(&o.Transit, "transit", false, "")
	return cmd
}

func bareCommand() *cobra.Command {
	var o contender.LoopOptions
	cmd := &cobra.Command{Use: "bare", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return contender.RunBare(cmd.Context(), o) }}
	f := cmd.Flags()
	f.StringVar(&o.URL, "url", "", "")
	f.StringVar(&o.CA, "ca", "", "")
	f.Int64Var(&o.Orders, "orders", 0, "")
	f.IntVar(&o.InFlight, "in-flight", 0, "")
	f.BoolVar(&o.Fast, "fast", false, "")
	return cmd
}

func workerCommand(name string, work func(context.Context, contender.WorkerOptions) error) *cobra.Command {
	var o contender.WorkerOptions
	cmd := &cobra.Command{Use: name, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return work(cmd.Context(), o) }}
	f := cmd.Flags()
	f.StringVar(&o.URL, "url", "", "")
	f.StringVar(&o.CA, "ca", "", "")
	f.StringVar(&o.NATS, "nats", "", "")
	f.StringVar(&o.Stream, "stream", "", "")
	f.StringVar(&o.Consumer, "consumer", "", "")
	f.StringVar(&o.Outcomes, "outcomes", "", "")
	f.StringVar(&o.Bucket, "bucket", "", "")
	f.BoolVar(&o.Replicated, "replicated", false, "")
	f.IntVar(&o.InFlight, "in-flight", 0, "")
	return cmd
}
