// Command dashboard reads the dashboards in the files that it is given as Grafana's own types have them, and prints each
// field that is unknown, missing or of a wrong type. The types have no lists of the words that a field may have.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if faults := faults(text); len(faults) > 0 {
			fmt.Fprintf(os.Stderr, "%s is no dashboard of Grafana's:\n%s\n", path, faults)
			os.Exit(1)
		}
	}
}

func faults(text []byte) (all cog.BuildErrors) {
	add := func(path string, err error) {
		if err != nil {
			all = append(all, cog.MakeBuildErrors(path, err)...)
		}
	}
	var whole dashboard.Dashboard
	add("dashboard", whole.UnmarshalJSONStrict(text))
	add("dashboard", whole.Validate())
	var parts struct {
		Panels []struct {
			Type        string
			FieldConfig json.RawMessage
		}
	}
	add("panels", json.Unmarshal(text, &parts))
	// A panel takes any type that it does not know, and unknown fields in its `fieldConfig`.
	for index, panel := range parts.Panels {
		path := fmt.Sprintf("panels[%d]", index)
		if _, isKnown := cog.ConfigForPanelcfgVariant(panel.Type); !isKnown {
			add(path, fmt.Errorf("unknown type %q", panel.Type))
		}
		var config dashboard.FieldConfigSource
		add(path+".fieldConfig", config.UnmarshalJSONStrict(panel.FieldConfig))
	}
	return all
}
