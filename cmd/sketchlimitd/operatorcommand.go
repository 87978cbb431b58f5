package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// operatorCommands are those for operators of a service that runs.
func operatorCommands() []*cobra.Command {
	var c client
	forgive := &cobra.Command{
		Use:     "forgive DOMAIN KEY=VALUE…",
		Short:   "Give a key back what it has used",
		Long:    "forgive lets the key of a descriptor use its limit anew, in a service that runs. Both must have the same OPERATOR_TOKEN.",
		Example: "  OPERATOR_TOKEN=… sketchlimitd forgive api client=ann path=/search",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("forgive with %d arguments, must have a domain and one key=value or more", len(args))
			}
			_, err := parseEntries(args[1:])
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.token = os.Getenv("OPERATOR_TOKEN")
			entries, err := parseEntries(args[1:])
			if err != nil {
				return err
			}
			var f forgiven
			if err := c.call("/forgive", forgiveRequest{args[0], entries}, &f); err != nil {
				return failed(err)
			}
			if f.Units == 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: nothing was used\n", f.Rule)
				return nil
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d units once more, until %s\n", f.Rule, f.Units, f.Until.Format("2006-01-02 15:04:05 MST"))
			return nil
		},
	}
	refused := &cobra.Command{
		Use:   "refused",
		Short: "List the keys that are refused the most in the present minute, by rule",
		Long:  "refused lists the keys that are refused the most, by rule. With OPERATOR_TOKEN of the service it shows values of clients.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.token = os.Getenv("OPERATOR_TOKEN")
			var all []refusedKey
			if err := c.call("/refused", nil, &all); err != nil {
				return failed(err)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "RULE\tKEY\tREFUSED")
			for _, k := range all {
				fmt.Fprintf(w, "%s\t%s\t%d … %d\n", k.Rule, k.Key, k.Count-k.Error, k.Count)
			}
			return failed(w.Flush())
		},
	}
	all := []*cobra.Command{forgive, refused}
	for _, command := range all {
		command.Flags().StringVar(&c.server, "server", "http://127.0.0.1:6070", "the debugging port of the service")
	}
	return all
}
