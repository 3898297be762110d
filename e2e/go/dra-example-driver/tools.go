//go:build tools

// Package tools names the programs to build, so that their modules are required.
package tools

import (
	_ "sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin"
)
