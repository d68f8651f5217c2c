package bench

import (
	"github.com/spf13/cobra"

	"orderpost/proof/bench/contender"
	"orderpost/proof/bench/syncs"
)

// watchedCommand starts the command that it gets, whose fsyncs are to be watched.
const watchedCommand = "watched"

// contenders are hidden commands: the bench starts itself with them.
func contenders() []*cobra.Command {
	return []*cobra.Command{sinkCommand(), usualCommand(), {Use: watchedCommand, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return syncs.Exec(args) }}}
}

func sinkCommand() *cobra.Command {
	var o contender.SinkOptions
	cmd := &cobra.Command{Use: "sink", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return contender.RunSink(cmd.Context(), o) }}
	f := cmd.Flags()
	f.StringVar(&o.Addr, "addr", "", "")
	f.StringVar(&o.TLSAddr, "tls-addr", "", "")
	f.StringVar(&o.TLSPair, "tls-pair", "", "")
	f.Int64Var(&o.Warm, "warm", 0, "")
	f.IntVar(&o.AnswerBytes, "answer-bytes", 0, "")
	f.BoolVar(&o.Transit, "transit", false, "")
	f.DurationVar(&o.Delay, "delay", 0, "")
	return cmd
}

func usualCommand() *cobra.Command {
	var o contender.WorkerOptions
	cmd := &cobra.Command{Use: "usual", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return contender.RunUsual(cmd.Context(), o) }}
	f := cmd.Flags()
	f.StringVar(&o.URL, "url", "", "")
	f.StringVar(&o.NATS, "nats", "", "")
	f.StringVar(&o.Stream, "stream", "", "")
	f.StringVar(&o.Consumer, "consumer", "", "")
	f.StringVar(&o.Outcomes, "outcomes", "", "")
	f.IntVar(&o.InFlight, "in-flight", 0, "")
	return cmd
}
