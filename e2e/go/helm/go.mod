// Builds helm, which installs the operator's chart.
module helm

go 1.26.0

require helm.sh/helm/v4 v4.0.0
