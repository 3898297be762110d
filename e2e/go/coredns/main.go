// Command coredns is CoreDNS with only the plugins that a cluster's DNS needs: a full
// build takes several times as long.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

// The order decides which plugin sees a question first. It is CoreDNS's own, but for template,
// which here answers what no other plugin knows.
var directives = []string{"ready", "errors", "cache", "kubernetes", "template"}

func main() {
	dnsserver.Directives = directives
	coremain.Run()
}
