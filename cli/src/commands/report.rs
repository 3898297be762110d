//! `report`: writes what a bug report needs about a MiniCluster into one archive.

mod redact;

use super::version::LABELS as OPERATOR;
use crate::exec;
use crate::log_stream;
use crate::minicluster::{is_of_pod, layout};
use crate::prelude::*;
use flate2::{Compression, write::GzEncoder};
use flux_contract::labels::{COMPLETION_INDEX, JOB_NAME, MANAGED_BY, MANAGED_BY_VALUE, NAME};
use futures::future::{BoxFuture, join_all};
use futures::{FutureExt as _, StreamExt as _, stream};
use kube::api::{ListParams, LogParams, Request};
use std::collections::BTreeSet;
use std::fs::File;
use std::pin::pin;
use tar::{Builder, Header};
use tokio::time::timeout;

const AT_ONCE: usize = 16;
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(30);
const QUESTIONS: [&[&str]; 4] =
    [&["dmesg"], &["module", "list"], &["resource", "list"], &["jobs", "-a"]];
/// Collections in which objects of a MiniCluster, or those of the operator, are. Events are about the others before them.
const COLLECTIONS: [(&str, &str, &str); 9] = [
    ("objects", "apis/flux-framework.org/v1alpha2", "miniclusters"),
    ("objects", "apis/batch/v1", "jobs"),
    ("objects", "api/v1", "pods"),
    ("objects", "api/v1", "services"),
    ("objects", "api/v1", "configmaps"),
    ("objects", "api/v1", "secrets"),
    ("objects", "api/v1", "events"),
    ("operator", "apis/apps/v1", "deployments"),
    ("operator", "api/v1", "pods"),
];
/// The namespace of the operator unless somebody has chosen another.
const OPERATOR_NAMESPACE: &str = "flux-operator-system";

/// The path of a file in the archive, and its content or why there is none.
type Entry = (String, Result<Vec<u8>>);

#[derive(Debug, Args)]
#[command(after_help = "\
The archive has objects, Events, logs, and the state of agents and of Flux; errors.txt names what could not be read. Values \
of Secrets, and of variables with names such as TOKEN, are left out. Commands, scripts and logs are not changed: read them \
before you publish it.")]
pub(crate) struct Report {
    #[command(flatten)]
    name: NameArgument,
}

impl Report {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let target = self.name.target(connection);
        let cluster = match target.object().await {
            Ok(object) => object.try_parse().ok(),
            Err(error) => match error.downcast_ref() {
                // The API server may let this user read other objects.
                Some(kube::Error::Api(_)) => None,
                _ => return Err(error),
            },
        };
        print_stderr(&format!("reading the objects of {}", target.name));
        let (entries, pods) = objects(&target).await;
        let reads: Vec<_> =
            pods.iter().flat_map(|pod| reads(&target, cluster.as_ref(), pod)).collect();
        print_stderr(&format!("reading {} logs and answers of programs", reads.len()));
        let reads = stream::iter(reads).buffer_unordered(AT_ONCE);
        let mut entries = pin!(stream::iter(entries).chain(reads));

        let stem = format!("{}-report-{}", target.name, Timestamp::now().strftime("%Y%m%d-%H%M%S"));
        let path = format!("{stem}.tar.gz");
        let file = File::create_new(&path).with_context(|| format!("create {path}"))?;
        let mut archive = Builder::new(GzEncoder::new(file, Compression::default()));
        let mut write = |name: &str, content: &[u8]| {
            let mut header = Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            let written = archive.append_data(&mut header, format!("{stem}/{name}"), content);
            written.with_context(|| format!("write {path}"))
        };
        let mut errors = Vec::new();
        while let Some((name, content)) = entries.next().await {
            match content {
                Ok(content) => write(&name, &content)?,
                Err(error) => errors.push(format!("{name}: {}\n", reason(&error))),
            }
        }
        errors.sort();
        write("errors.txt", errors.concat().as_bytes())?;
        let written = archive.into_inner().and_then(GzEncoder::finish);
        written.with_context(|| format!("write {path}"))?;
        print(&path);
        print_stderr(&format!(
            "objects, Events, logs and the state of Flux, without secrets; errors.txt names {} things that could not be \
             read; read commands, scripts and logs before you publish it",
            errors.len()
        ));
        Ok(())
    }
}

fn reason(error: &anyhow::Error) -> String {
    match error.downcast_ref() {
        Some(kube::Error::Api(status)) => format!("{} {}", status.code, status.message),
        _ => format!("{error:#}"),
    }
}

async fn objects(target: &MiniClusterRef) -> (Vec<Entry>, Vec<Value>) {
    let list = async |path: String, labels: &str| -> Result<Vec<Value>> {
        let request = Request::new(path).list(&ListParams::default().labels(labels));
        let mut list: Value = target.connection.client.request(request?).await?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    };
    let lists = COLLECTIONS.map(async |(directory, api, plural)| {
        let inside = |namespace: &str| format!("/{api}/namespaces/{namespace}/{plural}");
        if directory == "objects" {
            return (directory, plural, list(inside(&target.connection.namespace), "").await);
        }
        let mut found = list(format!("/{api}/{plural}"), OPERATOR).await;
        if found.is_err() {
            // A user who may not search all namespaces may still read this one.
            found = list(inside(OPERATOR_NAMESPACE), OPERATOR).await;
        }
        (directory, plural, found)
    });
    let (mut names, mut pods) = (BTreeSet::from([target.name.clone()]), Vec::new());
    let entries = join_all(lists).await.into_iter().map(|(directory, plural, found)| {
        let content = found.and_then(|mut objects| {
            if directory == "objects" {
                objects.retain(|object| belongs(plural, object, &target.name, &names));
                names.extend(objects.iter().map(|object| name(object).to_owned()));
            }
            for object in &mut objects {
                redact::redact(object, plural == "secrets");
            }
            let text = serde_saphyr::to_string(&objects).context("write YAML")?;
            pods.extend(objects.into_iter().filter(|_| plural == "pods"));
            Ok(text.into_bytes())
        });
        (format!("{directory}/{plural}.yaml"), content)
    });
    (entries.collect(), pods)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Whether the object is the MiniCluster, or the operator or the Job controller has made it for that; or an Event about an
/// object with one of these `names`, or about a pod that is gone.
fn belongs(plural: &str, object: &Value, minicluster: &str, names: &BTreeSet<String>) -> bool {
    let about = object["involvedObject"]["name"].as_str().unwrap_or_default();
    match plural {
        "miniclusters" => name(object) == minicluster,
        "events" => names.contains(about) || is_of_pod(about, minicluster),
        _ => {
            let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let labels = &object["metadata"]["labels"];
            let kinds = ["MiniCluster", "Job"];
            owners
                .any(|it| it["name"] == minicluster && kinds.iter().any(|kind| it["kind"] == *kind))
                || labels[JOB_NAME] == minicluster
                || (labels[NAME] == minicluster && labels[MANAGED_BY] == MANAGED_BY_VALUE)
        }
    }
}

/// What is read of a pod: the logs of its containers, also of those that were replaced, and the answers of its programs.
fn reads<'pod>(
    target: &'pod MiniClusterRef,
    cluster: Option<&MiniCluster>,
    pod: &'pod Value,
) -> Vec<BoxFuture<'pod, Entry>> {
    let name = name(pod);
    let mut reads = Vec::new();
    let mut runs = false;
    let lists = ["initContainerStatuses", "containerStatuses"];
    for state in lists.iter().filter_map(|list| pod["status"][list].as_array()).flatten() {
        let container = state["name"].as_str().unwrap_or_default();
        runs |= container == target.name && !state["state"]["running"].is_null();
        let current = state["state"]["waiting"].is_null().then_some(false);
        let previous = (state["restartCount"].as_u64() > Some(0)).then_some(true);
        reads.extend(current.into_iter().chain(previous).map(|previous| {
            let end = if previous { ".previous.log" } else { ".log" };
            let path = format!("logs/{name}/{container}{end}");
            async move { (path, log(target, pod, container, previous).await) }.boxed()
        }));
    }
    let Some(layout) = cluster.filter(|_| runs).map(layout) else { return reads };
    let status = ["status", "--output", "json"];
    let mut programs = vec![(format!("agents/{name}.json"), layout.agent(), &status[..])];
    let questions = QUESTIONS.iter().filter(|_| pod["metadata"]["labels"][COMPLETION_INDEX] == "0");
    programs.extend(
        questions.map(|question| {
            (format!("flux/{}.txt", question.join("-")), layout.client(), *question)
        }),
    );
    for (path, program, arguments) in programs {
        let argv: Vec<String> =
            [&[program.as_str()], arguments].concat().into_iter().map(str::to_owned).collect();
        reads.push(async move { (path, answer(target, name, &argv).await) }.boxed());
    }
    reads
}

async fn log(
    target: &MiniClusterRef,
    pod: &Value,
    container: &str,
    previous: bool,
) -> Result<Vec<u8>> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(target.connection.client.clone(), namespace);
    let container = Some(container.to_owned());
    let parameters = LogParams { container, previous, timestamps: true, ..LogParams::default() };
    log_stream::whole(&api, name(pod), &parameters).await
}

async fn answer(target: &MiniClusterRef, pod: &str, argv: &[String]) -> Result<Vec<u8>> {
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let output = timeout(PROGRAM_TIMEOUT, exec::capture(target, pod, &argv)).await;
    let late = || format!("it has not ended after {} s", PROGRAM_TIMEOUT.as_secs());
    let output = output.with_context(late)??;
    ensure!(output.code == 0, "{}", output.failure());
    Ok(output.stdout)
}
