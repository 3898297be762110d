// Builds the program that reads the chart's dashboard as Grafana's own types have it.
module dashboard

go 1.26.0

require github.com/grafana/grafana-foundation-sdk/go v0.0.22
