package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker; see buildVersion for builds without.
var version string

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print version, protocol and Go version",
		Example: "  slipring version",
		Args:    nothing,
		RunE: command(func(context.Context, []string) error {
			_, err := fmt.Fprintf(a.stdout, "slipring %s, protocol 1, %s %s/%s\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		}),
	}
}

// buildVersion is what the linker was told, else what the go command knew of the checkout.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
