//go:build tools

// Package tools names the programs to build, so that their modules are required.
package tools

import (
	_ "github.com/norwoodj/helm-docs/cmd/helm-docs"
)
