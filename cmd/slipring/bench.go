package main

import "github.com/spf13/cobra"

func newBench(a *app) *cobra.Command { return &cobra.Command{Use: "bench"} }
