package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const overlay = "kubernetes/overlays/production/"

// sources are the manifests that become templates of the chart, by the key of values.yaml
// that they belong to.
var sources = []struct{ key, files string }{
	{"worker", "kubernetes/base/*.yaml"},
	{"gateway", "kubernetes/gateway/*.yaml"},
	{"notify", "kubernetes/notify/*.yaml"},
	{"operator", "kubernetes/operator/*.yaml"},
	{"console", "kubernetes/console/*.yaml"},
	{"monitoring", overlay + "servicemonitor.yaml"},
	{"monitoring", overlay + "prometheusrule.yaml"},
	{"autoscaling", overlay + "scaledobject.yaml"},
}

// A rule puts a value in the place of what a manifest says. KEY stands for the key of values.yaml.
type rule struct {
	file    string // a manifest's name, or empty for all
	text    *regexp.Regexp
	replace string
}

// rules apply in this order. The first one keeps what is no template from being read as one.
var rules = []rule{
	{"prometheusrule.yaml", re(`\{\{`), `{{ "{{" }}`},
	{"", re(`^(metadata:\n  name: .*\n)`), "${1}  namespace: {{ .Release.Namespace }}\n"},

	{"deployment.yaml", re(`^  replicas: 2$`), "  replicas: {{ .Values.KEY.replicas }}"},
	{"deployment.yaml", re(`image: orderpost$`), `image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"`},
	{"deployment.yaml", re(`image: orderpost-operator$`), `image: "{{ .Values.operator.image.repository }}:{{ .Values.operator.image.tag }}"`},
	{"deployment.yaml", re(`^          resources:\n(            .*\n)+`), "          {{- with .Values.KEY.resources }}\n          resources: {{- toYaml . | nindent 12 }}\n          {{- end }}\n"},
	{"deployment.yaml", re(`^      securityContext:\n(        .*\n)+`), ""}, // values.yaml has it
	{"deployment.yaml", re(`^      topologySpreadConstraints:.*\n(        .*\n)+`), "      {{- if not (hasKey .Values.pod \"topologySpreadConstraints\") }}\n${0}      {{- end }}\n"},
	{"deployment.yaml", re(`^(        - name: (.*)\n          secret: \{secretName: )[a-z-]+`), "${1}{{ .Values.KEY.secrets.${2} }}"},
	{"deployment.yaml", re(`^(      automountServiceAccountToken: false\n)`), "${1}" + list("pod", 6)},
	{"deployment.yaml", re(`"tls://nats\.nats\.svc:4222"`), "{{ .Values.nats.url | quote }}"},
	{"deployment.yaml", re(`(?:^            - \{name: ORDERPOST_(?:GATEWAY_TLS_|NOTIFY_URL|CONSOLE_(?:HOSTS|USERS|TLS_)).*\n)+`), `            {{- range $$name, $$value := .Values.KEY.settings }}{{ if ne $$value nil }}
            - {name: {{ $$name }}, value: {{ $$value | quote }}}
            {{- end }}{{ end }}
`},
	{"networkpolicy.yaml", re(`(kubernetes\.io/metadata\.name: )(nats|monitoring)`), "${1}{{ .Values.${2}.namespace | quote }}"},

	{"scaledobject.yaml", re(`(minReplica|maxReplica)Count: \d+`), "${1}Count: {{ .Values.KEY.${1}s }}"},
	{"scaledobject.yaml", re(`serverAddress: .*`), "serverAddress: {{ .Values.KEY.prometheus }}"},
	{"scaledobject.yaml", re(`namespace="orderpost"`), `namespace="{{ .Release.Namespace }}"`},
	{"scaledobject.yaml", re(`threshold: .*`), "threshold: {{ .Values.KEY.ordersPerWorker | int | quote }}"},
}

// workerRules are for the worker's Deployment alone.
var workerRules = []rule{
	{"", re(`^(  replicas: .*\n)`), "  {{- if not .Values.autoscaling.enabled }}\n${1}  {{- end }}\n"},
	{"", re(`^    metadata:\n`), "${0}      annotations: # new settings, new pods\n        checksum/config: {{ include (print $$.Template.BasePath \"/worker/configmap.yaml\") . | sha256sum }}\n"},
	{"", re(`terminationGracePeriodSeconds: \d+`), "terminationGracePeriodSeconds: {{ .Values.worker.terminationGracePeriodSeconds }}"},
	{"", re(`^      volumes:\n`), list("worker.volumeMounts", 12) + "${0}" + list("worker.volumes", 8)},
}

func re(text string) *regexp.Regexp { return regexp.MustCompile("(?m)" + text) }

// list gives what a value holds, if it holds something.
func list(key string, indent int) string {
	at := strings.Repeat(" ", indent)
	return fmt.Sprintf("%[1]s{{- with .Values.%[2]s }}\n%[1]s{{- toYaml . | nindent %[3]d }}\n%[1]s{{- end }}\n", at, key, indent)
}

// Templates makes the chart's templates of the manifests in a folder (deployments), by their
// path inside the chart. A rule that finds nothing in any manifest is an error: the manifest
// has changed, and the rule must follow.
func Templates(folder string) (map[string]string, error) {
	out, used := make(map[string]string), make(map[*regexp.Regexp]bool)
	for _, source := range sources {
		paths, err := filepath.Glob(filepath.Join(folder, source.files))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			name := filepath.Base(path)
			if name == "kustomization.yaml" {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			from, err := filepath.Rel(folder, path)
			if err != nil {
				return nil, err
			}
			out["templates/"+source.key+"/"+name] = fmt.Sprintf("{{- /* Made of deployments/%s: make chart */ -}}\n", filepath.ToSlash(from)) +
				guard(source.key, name, template(source.key, name, string(text), used))
		}
	}
	for _, r := range append(rules, workerRules...) {
		if !used[r.text] {
			return nil, fmt.Errorf("rule %q: no manifest has this any more: change the rule", r.text)
		}
	}
	return out, nil
}

func template(key, name, text string, used map[*regexp.Regexp]bool) string {
	apply := rules
	if key == "worker" && name == "deployment.yaml" {
		apply = append(apply[:len(apply):len(apply)], workerRules...)
	}
	for _, r := range apply {
		if (r.file == "" || r.file == name) && r.text.MatchString(text) {
			used[r.text] = true
			text = r.text.ReplaceAllString(text, strings.ReplaceAll(r.replace, "KEY", key))
		}
	}
	if key == "monitoring" || key == "autoscaling" {
		return text
	}
	return labelled(text)
}

// labelled does what the kustomizations' labels do.
func labelled(text string) string {
	const label = "app.kubernetes.io/part-of: orderpost"
	if of := re(`^  labels: \{`); of.MatchString(text) {
		return of.ReplaceAllString(text, "${0}"+label+", ")
	}
	return re(`^(  namespace: .*\n)`).ReplaceAllString(text, "${1}  labels: {"+label+"}\n")
}

// guard leaves out what the values switch off.
func guard(key, name, text string) string {
	var when []string
	if key != "worker" {
		when = append(when, ".Values."+key+".enabled")
	}
	if name == "networkpolicy.yaml" {
		when = append(when, ".Values.networkPolicies")
	}
	switch len(when) {
	case 0:
		return text
	case 1:
		return "{{- if " + when[0] + " }}\n" + text + "{{- end }}\n"
	}
	return "{{- if and " + strings.Join(when, " ") + " }}\n" + text + "{{- end }}\n"
}
