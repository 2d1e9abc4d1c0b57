# Tools that check the product and are no part of it: run with `go run`, pinned here, absent from go.mod.
# A new pin needs a look at what the new version finds; staticcheck and govulncheck must understand GOTOOLCHAIN of the Makefile.
# shellcheck shell=bash disable=SC2034
STATICCHECK=honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK=golang.org/x/vuln/cmd/govulncheck@v1.9.0
VULNDB=golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018
