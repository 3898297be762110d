//! The manifests that install the operator. That its role covers every request it makes is checked by
//! the API server of the other tests (`support/rights.rs`).

use flux_operator::crd::Install;
use flux_operator::manifests::{self, Format, ImageNames, Installation};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An operator for one namespace, with images of its own.
fn of_a_tenant() -> Installation {
    Installation {
        watch_namespace: Some("tenant".to_owned()),
        images: ImageNames {
            operator_image: "registry.example/operator:3".to_owned(),
            agent_image: "registry.example/agent:3".to_owned(),
            view_image: "registry.example/view:3".to_owned(),
            ..ImageNames::default()
        },
        install: Some(Install::Image),
        ..Installation::default()
    }
}

/// An operator for all namespaces, with everything that there is.
fn with_everything() -> Installation {
    Installation {
        namespace: Some("team".to_owned()),
        image_pull_secrets: vec!["login".to_owned(), "other".to_owned()],
        pod_disruption_budget: true,
        network_policy: true,
        service_monitor: true,
        ..Installation::default()
    }
}

/// Every document of every file.
fn documents(installation: &Installation) -> Vec<Value> {
    let files = manifests::files(installation).unwrap();
    let texts = files.iter().flat_map(|(_, text)| text.split("---\n").skip(1));
    texts.map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

/// The documents by kind.
fn kinds(installation: &Installation) -> BTreeMap<String, Vec<Value>> {
    let mut kinds = BTreeMap::<_, Vec<Value>>::new();
    for object in documents(installation) {
        kinds.entry(object["kind"].as_str().unwrap().to_owned()).or_default().push(object);
    }
    kinds
}

fn resources(rule: &PolicyRule) -> Vec<String> {
    rule.resources.clone().unwrap()
}

fn rules(role: Role) -> Vec<PolicyRule> {
    role.rules.unwrap()
}

/// Every file below `directory`.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    entries.flat_map(below).collect()
}

#[test]
fn the_files_in_deploy_are_the_generated_ones() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    let mut generated = Vec::new();
    for (format, name, directory) in [
        (Format::Plain, "plain", "."),
        (Format::Kustomize, "kustomize", "kustomize"),
        (Format::Helm, "helm", "helm/flux-operator"),
    ] {
        for (file, text) in format.files(&Installation::default()).unwrap() {
            let path = deploy.join(directory).join(&file);
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                written == text,
                "deploy/{directory}/{file} is not what the code says: run `cargo run -p flux-operator -- manifests --format {name} --output-directory deploy/{directory}`"
            );
            generated.push(path.canonicalize().unwrap());
        }
    }
    for path in files_below(&deploy) {
        let is_generated = generated.contains(&path.canonicalize().unwrap());
        assert!(is_generated, "{} is not written any more: delete it", path.display());
    }
}

#[test]
fn every_document_reads_back_as_an_object_with_a_name() {
    for installation in [Installation::default(), of_a_tenant(), with_everything()] {
        for object in documents(&installation) {
            assert!(object["kind"].is_string() && object["apiVersion"].is_string(), "{object}");
            assert!(object["metadata"]["name"].is_string(), "{object}");
        }
    }
}

#[test]
fn the_definition_reads_back_equal() {
    let definition =
        serde_json::to_value(flux_operator::crd::definition::definition().unwrap()).unwrap();
    assert!(documents(&Installation::default()).contains(&definition));
}

#[test]
fn an_operator_for_one_namespace_comes_with_nothing_outside_it() {
    let objects = documents(&of_a_tenant());
    let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["Role", "RoleBinding", "ServiceAccount", "Role", "RoleBinding", "Deployment", "Service"]
    );
    for object in &objects {
        assert_eq!(object["metadata"]["namespace"], "tenant", "{object}");
    }
    assert_eq!(objects[1]["subjects"][0]["namespace"], "tenant");
    let container = &objects[5]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/operator:3");
    let arguments = [
        "run",
        "--leader-elect=true",
        "--agent-image=registry.example/agent:3",
        "--view-image=registry.example/view:3",
        "--install=Image",
        "--namespace=tenant",
    ];
    assert_eq!(container["args"], json!(arguments));
}

#[test]
fn an_operator_may_live_in_another_namespace_than_the_one_it_serves() {
    let installation = Installation { namespace: Some("home".to_owned()), ..of_a_tenant() };
    for object in documents(&installation) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let serves = ["Role", "RoleBinding"].contains(&object["kind"].as_str().unwrap())
            && name == manifests::NAME;
        let place = if serves { "tenant" } else { "home" };
        assert_eq!(object["metadata"]["namespace"], place, "{object}");
        if object["kind"] == "RoleBinding" {
            assert_eq!(object["subjects"][0]["namespace"], "home");
            assert_eq!(object["roleRef"]["name"], name);
        }
    }
}

#[test]
fn a_namespace_that_somebody_names_is_not_made() {
    assert_eq!(kinds(&Installation::default())["Namespace"].len(), 1);
    let named = kinds(&with_everything());
    assert!(!named.contains_key("Namespace"));
    assert_eq!(named["ClusterRoleBinding"][0]["subjects"][0]["namespace"], "team");
    assert_eq!(named["Deployment"][0]["metadata"]["namespace"], "team");
}

#[test]
fn what_is_asked_for_is_there_and_concerns_the_operators_pods() {
    let without = kinds(&Installation::default());
    let kinds = kinds(&with_everything());
    let pods = &kinds["Deployment"][0]["spec"]["template"]["metadata"]["labels"];
    assert_eq!(without["Deployment"][0]["spec"]["replicas"], 1);
    assert_eq!(kinds["Deployment"][0]["spec"]["replicas"], 2);
    let secrets = &kinds["Deployment"][0]["spec"]["template"]["spec"]["imagePullSecrets"];
    assert_eq!(*secrets, json!([{ "name": "login" }, { "name": "other" }]));
    for (kind, selector) in [
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
    ] {
        assert!(!without.contains_key(kind));
        assert_eq!(kinds[kind][0].pointer(selector), Some(pods));
    }
    let monitor = &kinds["ServiceMonitor"][0]["spec"];
    let service = &kinds["Service"][0];
    assert_eq!(monitor["selector"]["matchLabels"], service["metadata"]["labels"]);
    assert_eq!(monitor["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);
}

#[test]
fn every_image_of_the_project_comes_from_the_registry_that_is_asked_for() {
    let registry = Some("registry.example:5000/flux".to_owned());
    let images = ImageNames { registry, ..ImageNames::default() };
    let text: String = manifests::files(&Installation { images, ..Installation::default() })
        .unwrap()
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert!(!text.contains("ghcr.io/flux-framework"), "{text}");
    assert_eq!(text.matches("registry.example:5000/flux/flux-operator-rs").count(), 2);
}

#[test]
fn every_file_that_a_kustomization_names_is_there_and_one_namespace_follows_its_own() {
    let files: BTreeMap<_, _> =
        Format::Kustomize.files(&Installation::default()).unwrap().into_iter().collect();
    let read = |name: &str| -> Value { serde_saphyr::from_str(&files[name]).unwrap() };
    for name in files.keys().filter(|name| name.ends_with("kustomization.yaml")) {
        let directory = Path::new(name).parent().unwrap();
        let kustomization = read(name);
        let lists = ["resources", "patches", "components"].map(|list| kustomization[list].clone());
        for entry in lists.iter().filter_map(Value::as_array).flatten() {
            let path = entry.as_str().or_else(|| entry["path"].as_str()).unwrap();
            let file = directory.join(path).to_string_lossy().into_owned();
            assert!(path == "../base" || files.contains_key(&file), "{name}: {path}");
        }
    }
    let patch = read("one-namespace/watch-namespace.yaml");
    let variable = &patch["spec"]["template"]["spec"]["containers"][0]["env"][0];
    assert_eq!(variable["name"], "FLUX_OPERATOR_NAMESPACE");
    assert!(!files["base/operator.yaml"].contains("--namespace"));
}

#[test]
fn an_option_of_a_kustomization_is_one_of_its_components() {
    let base = |installation: &Installation| -> Value {
        let files = Format::Kustomize.files(installation).unwrap();
        let (_, text) =
            files.into_iter().find(|(name, _)| name == "base/kustomization.yaml").unwrap();
        serde_saphyr::from_str(&text).unwrap()
    };
    assert_eq!(base(&Installation::default())["components"], json!([]));
    let components = ["pod-disruption-budget", "network-policy", "service-monitor"];
    let components = components.map(|name| format!("../components/{name}"));
    assert_eq!(base(&with_everything())["components"], json!(components));
}

#[test]
fn all_faults_of_the_options_are_named_at_once() {
    let installation = Installation {
        namespace: Some("Team".to_owned()),
        watch_namespace: Some(String::new()),
        images: ImageNames {
            registry: Some("https://registry.example/".to_owned()),
            operator_image: "Operator:1".to_owned(),
            agent_image: "a b".to_owned(),
            view_image: String::new(),
        },
        image_pull_secrets: vec!["no_name".to_owned()],
        ..Installation::default()
    };
    let options = |format| {
        let faults = manifests::check(&installation, format, true).unwrap_err().0;
        faults.into_iter().map(|fault| fault.path).collect::<Vec<_>>().join(" ")
    };
    let always = "--namespace --watch-namespace --image-pull-secret --registry --operator-image --agent-image --view-image";
    assert_eq!(options(Format::Plain), always);
    let kustomize = format!("{always} --output-directory --watch-namespace");
    assert_eq!(options(Format::Kustomize), kustomize);
    assert_eq!(options(Format::Helm), format!("{always} --output-directory --namespace"));
    manifests::check(&of_a_tenant(), Format::Helm, false).unwrap();
    manifests::check(&with_everything(), Format::Kustomize, false).unwrap();
    manifests::check_images(&installation.images).unwrap_err();
}

#[test]
fn an_operator_for_one_namespace_may_do_there_what_the_other_may_do_everywhere() {
    let mut everywhere = manifests::cluster_role().rules.unwrap();
    // Nodes are in no namespace.
    everywhere.retain(|rule| resources(rule) != ["nodes"]);
    assert_eq!(rules(manifests::role("tenant")), everywhere);
    let own = rules(manifests::leader_role("tenant"));
    assert_eq!(own.iter().flat_map(resources).collect::<Vec<_>>(), ["leases"]);
}

#[test]
fn the_operator_may_not_read_secrets_nor_touch_what_is_not_its_own() {
    for rule in &manifests::cluster_role().rules.unwrap() {
        let resources = resources(rule);
        assert!(!rule.verbs.iter().any(|verb| verb == "*"), "{resources:?}");
        assert!(!resources.iter().any(|resource| resource == "*" || resource == "pods/exec"));
        if resources.contains(&"secrets".to_owned()) {
            assert_eq!(rule.verbs, ["create"]);
        }
        if rule.verbs.contains(&"delete".to_owned()) {
            assert!(
                ["miniclusters", "pods", "services"].contains(&resources[0].as_str()),
                "{resources:?}"
            );
        }
    }
}

#[test]
fn the_deployment_is_one_that_pod_security_restricted_admits() {
    let template = manifests::deployment(&Installation::default()).spec.template.spec.unwrap();
    let pod = template.security_context.unwrap();
    assert_eq!(pod.run_as_non_root, Some(true));
    assert_eq!(pod.seccomp_profile.unwrap().type_, "RuntimeDefault");
    for container in template.containers {
        let context = container.security_context.unwrap();
        assert_eq!(context.allow_privilege_escalation, Some(false));
        assert_eq!(context.read_only_root_filesystem, Some(true));
        assert_eq!(context.capabilities.unwrap().drop.unwrap(), ["ALL"]);
        assert!(container.resources.unwrap().limits.unwrap().contains_key("memory"));
        assert!(container.liveness_probe.is_some() && container.readiness_probe.is_some());
    }
}

#[test]
fn selectors_fit_the_pods() {
    let deployment = manifests::deployment(&Installation::default()).spec;
    let labels = deployment.template.metadata.unwrap().labels.unwrap();
    assert_eq!(deployment.selector.match_labels.unwrap(), labels);
    assert_eq!(
        manifests::metrics_service(&Installation::default()).spec.unwrap().selector.unwrap(),
        labels
    );
}
