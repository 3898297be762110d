{{- /* An image, from the registry of the values if it is one of this project: registry, image. */ -}}
{{- define "flux-operator.image" -}}
{{- regexReplaceAll "^REGISTRY/PROJECT" (index . 1) (printf "%s/PROJECT" (index . 0)) -}}
{{- end -}}
