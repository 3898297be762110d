{{- /* An image, in the registry of the values if there is one and the image is of this project: registry, image. */ -}}
{{- define "flux-operator.image" -}}
{{- if index . 0 -}}
{{- regexReplaceAll "^(.*/)?(flux-operator-rs[^/]*)$" (index . 1) (printf "%s/${2}" (index . 0)) -}}
{{- else -}}
{{- index . 1 -}}
{{- end -}}
{{- end -}}
