//! An example of each field, in the order of the API.

/// A field's path and YAML that shows it. Fields without which it would be refused or without
/// effect stand beside it.
pub(super) struct Example {
    /// Path of the field; `[]` is an item of a list, `<name>` an entry of a map.
    pub(super) path: &'static str,
    /// The object the YAML is the content of; absent: the nearest that is no entry of a map.
    pub(super) within: Option<&'static str>,
    /// Lines of YAML.
    pub(super) yaml: &'static str,
}

const fn example(path: &'static str, yaml: &'static str) -> Example {
    Example { path, within: None, yaml }
}

const fn example_within(path: &'static str, within: &'static str, yaml: &'static str) -> Example {
    Example { path, within: Some(within), yaml }
}

/// The examples of all fields: a test compares them with the definition. The order of this table is
/// the order of the reference.
pub(super) const EXAMPLES: &[&[Example]] =
    &[SPEC, NETWORK, FLUX, LOGGING, POD, SCHEDULING, CONTAINER, VOLUME, COMMANDS, SERVICES, STATUS];

const SPEC: &[Example] = &[
    example("spec.size", "size: 4"),
    example("spec.maxSize", "size: 4\nmaxSize: 10"),
    example("spec.minSize", "size: 4\nminSize: 2"),
    example("spec.tasks", "size: 4\ntasks: 8"),
    example("spec.interactive", "interactive: true"),
    example("spec.launcher", "launcher: true"),
    example("spec.jobLabels", "jobLabels:\n  team: physics"),
    example("spec.deadlineSeconds", "deadlineSeconds: 3600"),
    example("spec.backoffLimit", "backoffLimit: 3"),
    example("spec.startDeadlineSeconds", "startDeadlineSeconds: 600"),
    example("spec.suspend", "suspend: true"),
    example("spec.cleanup", "cleanup: true"),
    example("spec.ttlSecondsAfterFinished", "ttlSecondsAfterFinished: 3600"),
    example("spec.shareProcessNamespace", "shareProcessNamespace: true"),
];

const NETWORK: &[Example] = &[
    example("spec.network.headlessName", "headlessName: flux-service"),
    example("spec.network.disableAffinity", "disableAffinity: true"),
];

const FLUX: &[Example] = &[
    example("spec.flux.container.disable", "disable: true"),
    example("spec.flux.container.install", "install: Copy"),
    example("spec.flux.container.medium", "medium: Memory"),
    example("spec.flux.container.name", "name: flux"),
    example(
        "spec.flux.container.image",
        "image: ghcr.io/converged-computing/flux-view-rocky:tag-9",
    ),
    example("spec.flux.container.pullAlways", "pullAlways: true"),
    example("spec.flux.container.imagePullSecret", "imagePullSecret: registry-login"),
    example("spec.flux.container.workingDir", "workingDir: /tmp"),
    example(
        "spec.flux.container.pythonPath",
        "pythonPath: /mnt/flux/view/lib/python3.11/site-packages",
    ),
    example("spec.flux.container.mountPath", "mountPath: /opt/flux"),
    example(
        "spec.flux.container.resources",
        "resources:\n  limits:\n    cpu: \"1\"\n    memory: 512Mi",
    ),
    example(
        "spec.flux.container.securityContext",
        "securityContext:\n  allowPrivilegeEscalation: false",
    ),
    example("spec.flux.arch", "arch: arm"),
    example("spec.flux.submitCommand", "submitCommand: flux mini submit"),
    example("spec.flux.wrap", "wrap: strace,-e,network,-tt"),
    example("spec.flux.connectTimeout", "connectTimeout: 500ms"),
    example("spec.flux.optionFlags", "optionFlags: -o cpu-affinity=per-task"),
    example("spec.flux.minimalService", "minimalService: true"),
    example("spec.flux.disableSocket", "disableSocket: true"),
    example("spec.flux.topology", "topology: kary:2"),
    example("spec.flux.noWaitSocket", "noWaitSocket: true"),
    example("spec.flux.completeWorkers", "completeWorkers: true"),
    example("spec.flux.drainSeconds", "drainSeconds: 600"),
    example("spec.flux.logLevel", "logLevel: 7"),
    example("spec.flux.curveCert", CERTIFICATE),
    example("spec.flux.curveCertSecret", "curveCertSecret: shared-certificate"),
    example("spec.flux.scheduler.simple", "simple: true"),
    example("spec.flux.scheduler.queuePolicy", "queuePolicy: easy"),
    example("spec.flux.mungeSecret", "mungeSecret: munge-key"),
    example_within("spec.flux.bursting.leadBroker.address", "spec.flux.bursting", LEAD_BROKER),
    example_within("spec.flux.bursting.leadBroker.name", "spec.flux.bursting", LEAD_BROKER),
    example_within("spec.flux.bursting.leadBroker.size", "spec.flux.bursting", LEAD_BROKER),
    example_within(
        "spec.flux.bursting.leadBroker.port",
        "spec.flux.bursting",
        "leadBroker:\n  port: 30093\n  address: 203.0.113.7\n  name: flux-sample\n  size: 4\nclusters:\n  - name: burst-0\n    size: 4",
    ),
    example(
        "spec.flux.bursting.leadBroker.hostlist",
        "hostlist: flux-sample-[0-3],burst-0-[0-3]\naddress: 203.0.113.7",
    ),
    example("spec.flux.bursting.hostlist", "hostlist: flux-sample-[0-3],gffw-compute-a-[001-003]"),
    example("spec.flux.bursting.clusters[].name", "name: burst-0\nsize: 4"),
    example("spec.flux.bursting.clusters[].size", "size: 4"),
    example(
        "spec.flux.leadBroker",
        "leadBroker:\n  address: 203.0.113.7\n  hostlist: flux-sample-[0-3],burst-0-[0-3]",
    ),
    example("spec.flux.brokerConfig", "brokerConfig: |\n  [exec]\n  testexec.allow-guests = true"),
    example("spec.flux.environment", "environment:\n  OMP_NUM_THREADS: \"4\""),
];

const LEAD_BROKER: &str = "leadBroker:
  address: 203.0.113.7
  name: flux-sample
  size: 4
clusters:
  - name: burst-0
    size: 4";

const CERTIFICATE: &str = "curveCert: |
  metadata
      name = \"flux-cert-generator\"
      keygen.hostname = \"flux-sample-0\"
  curve
      public-key = \"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID\"
      secret-key = \"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs\"";

const LOGGING: &[Example] = &[
    example("spec.logging.quiet", "quiet: true"),
    example("spec.logging.strict", "strict: false"),
    example("spec.logging.debug", "debug: true"),
    example("spec.logging.zeromq", "zeromq: true"),
    example("spec.logging.timed", "timed: true"),
    example_within(
        "spec.archive.path",
        "spec",
        "archive:\n  path: /state/archive.tar.gz\ncontainers:\n  - image: ubuntu:24.04\n    volumes:\n      state:\n        path: /state\n        claimName: state",
    ),
];

const POD: &[Example] = &[
    example("spec.pod.labels", "labels:\n  team: physics"),
    example("spec.pod.annotations", "annotations:\n  example.org/purpose: demonstration"),
    example("spec.pod.resources", "resources:\n  cpu: \"4\"\n  memory: 8Gi"),
    example("spec.pod.restartPolicy", "restartPolicy: OnFailure"),
    example("spec.pod.serviceAccountName", "serviceAccountName: scaler"),
    example("spec.pod.runtimeClassName", "runtimeClassName: nvidia"),
    example("spec.pod.automountServiceAccountToken", "automountServiceAccountToken: true"),
    example("spec.pod.schedulerName", "schedulerName: fluence"),
    example("spec.pod.nodeSelector", "nodeSelector:\n  kubernetes.io/arch: amd64"),
    example(
        "spec.pod.nodeAffinity",
        "nodeAffinity:\n  node.kubernetes.io/instance-type:\n    - c2d-standard-8\n    - c2d-standard-16",
    ),
    example(
        "spec.pod.tolerations",
        "tolerations:\n  - key: nvidia.com/gpu\n    operator: Exists\n    effect: NoSchedule",
    ),
    example("spec.pod.dnsPolicy", "dnsPolicy: ClusterFirstWithHostNet"),
    example("spec.pod.hostIPC", "hostIPC: true"),
    example("spec.pod.hostPID", "hostPID: true"),
    example(
        "spec.pod.securityContext",
        "securityContext:\n  runAsNonRoot: true\n  runAsUser: 1000\n  fsGroup: 1000",
    ),
    example(
        "spec.pod.overlay",
        "overlay:\n  terminationGracePeriodSeconds: 600\n  priorityClassName: batch",
    ),
];

const SCHEDULING: &[Example] = &[example("spec.scheduling.gang", "gang: PodGroup")];

const CONTAINER: &[Example] = &[
    example("spec.containers[].image", "image: ubuntu:24.04"),
    example("spec.containers[].name", "name: web\nrunFlux: false"),
    example("spec.containers[].command", "command: echo hello world"),
    example("spec.containers[].imagePullSecret", "imagePullSecret: registry-login"),
    example("spec.containers[].imagePullPolicy", "imagePullPolicy: Never"),
    example("spec.containers[].pullAlways", "pullAlways: true"),
    example("spec.containers[].workingDir", "workingDir: /opt/lammps/examples"),
    example("spec.containers[].ports", "name: web\nrunFlux: false\nports:\n  - 8080"),
    example("spec.containers[].environment", "environment:\n  GREETING: hello"),
    example(
        "spec.containers[].secrets.<name>.name",
        "secrets:\n  TOKEN:\n    name: credentials\n    key: token",
    ),
    example(
        "spec.containers[].secrets.<name>.key",
        "secrets:\n  TOKEN:\n    key: token\n    name: credentials",
    ),
    example("spec.containers[].cores", "cores: 4"),
    example(
        "spec.containers[].launcher",
        "launcher: true\ncommand: snakemake --executor flux --jobs 1",
    ),
    example("spec.containers[].batch", "batch: true\ncommand: |\n  echo first\n  echo second"),
    example(
        "spec.containers[].batchRaw",
        "batchRaw: true\nbatch: true\ncommand: |\n  flux run -n4 hostname\n  flux run -n1 date",
    ),
    example("spec.containers[].logs", "logs: /data/output\nbatch: true\ncommand: echo first"),
    example("spec.containers[].runFlux", "runFlux: true"),
    example(
        "spec.containers[].noWrapEntrypoint",
        "noWrapEntrypoint: true\nname: web\nimage: nginx\nrunFlux: false",
    ),
    example("spec.containers[].diagnostics", "diagnostics: true"),
];

const VOLUME: &[Example] = &[
    example(
        "spec.containers[].volumes.<name>.path",
        "volumes:\n  data:\n    path: /data\n    hostPath: /mnt/data",
    ),
    example(
        "spec.containers[].volumes.<name>.hostPath",
        "volumes:\n  data:\n    hostPath: /mnt/data\n    path: /data",
    ),
    example(
        "spec.containers[].volumes.<name>.configMapName",
        "volumes:\n  inputs:\n    configMapName: simulation-inputs\n    path: /inputs",
    ),
    example(
        "spec.containers[].volumes.<name>.items",
        "volumes:\n  inputs:\n    items:\n      mesh: small/mesh.dat\n    configMapName: simulation-inputs\n    path: /inputs",
    ),
    example(
        "spec.containers[].volumes.<name>.claimName",
        "volumes:\n  data:\n    claimName: shared-data\n    path: /data",
    ),
    example(
        "spec.containers[].volumes.<name>.secretName",
        "volumes:\n  keys:\n    secretName: bucket-keys\n    path: /keys",
    ),
    example(
        "spec.containers[].volumes.<name>.readOnly",
        "volumes:\n  data:\n    readOnly: true\n    claimName: shared-data\n    path: /data",
    ),
    example("spec.containers[].volumes.<name>.emptyDir", "volumes:\n  memory:\n    emptyDir: true"),
    example(
        "spec.containers[].volumes.<name>.emptyDirMedium",
        "volumes:\n  memory:\n    emptyDirMedium: memory\n    emptyDir: true",
    ),
    example(
        "spec.containers[].volumes.<name>.emptyDirSizeLimit",
        "volumes:\n  memory:\n    emptyDirSizeLimit: 64Gi\n    emptyDir: true\n    emptyDirMedium: memory",
    ),
    example(
        "spec.containers[].volumes.<name>.csiDriver",
        "volumes:\n  bucket:\n    csiDriver: gcsfuse.csi.storage.gke.io\n    path: /bucket",
    ),
    example(
        "spec.containers[].volumes.<name>.csiDriverAttributes",
        "volumes:\n  bucket:\n    csiDriverAttributes:\n      bucketName: results\n    csiDriver: gcsfuse.csi.storage.gke.io\n    path: /bucket",
    ),
];

const COMMANDS: &[Example] = &[
    example("spec.containers[].lifeCycle.postStartExec", "postStartExec: touch /tmp/started"),
    example("spec.containers[].lifeCycle.preStopExec", "preStopExec: sh -c \"sync; sleep 1\""),
    example(
        "spec.containers[].resources",
        "resources:\n  limits:\n    cpu: \"4\"\n    nvidia.com/gpu: 1",
    ),
    example("spec.containers[].securityContext", "securityContext:\n  privileged: true"),
    example("spec.containers[].commands.prefix", "prefix: fusion"),
    example(
        "spec.containers[].commands.script",
        "script: |\n  #!/bin/bash\n  echo \"task $FLUX_TASK_RANK\"",
    ),
    example("spec.containers[].commands.init", "init: export LC_ALL=C"),
    example(
        "spec.containers[].commands.pre",
        "pre: |\n  . /opt/spack/share/spack/setup-env.sh\n  export OMP_NUM_THREADS=4",
    ),
    example("spec.containers[].commands.post", "post: cp results.csv /data"),
    example("spec.containers[].commands.workerPre", "workerPre: echo \"a worker\""),
    example("spec.containers[].commands.preWorker", "preWorker: echo \"a worker\""),
    example("spec.containers[].commands.brokerPre", "brokerPre: python3 prepare.py"),
    example("spec.containers[].commands.preBroker", "preBroker: python3 prepare.py"),
    example_within(
        "spec.containers[].commands.servicePre",
        "spec.containers[]",
        "name: web\nrunFlux: false\ncommands:\n  servicePre: mkdir -p /run/web",
    ),
    example("spec.containers[].commands.runFluxAsRoot", "runFluxAsRoot: true"),
    example("spec.containers[].preCommand", "preCommand: . /etc/profile.d/modules.sh"),
    example("spec.containers[].fluxUser.uid", "uid: 1234"),
    example("spec.containers[].fluxUser.name", "name: scientist"),
    example("spec.containers[].fluxuser", "fluxuser:\n  name: scientist\n  uid: 1234"),
];

const SERVICES: &[Example] = &[example(
    "spec.services",
    "services:\n  - image: nginx\n    name: nginx\n    ports:\n      - 80",
)];

const STATUS: &[Example] = &[
    example("status.size", "size: 4"),
    example("status.selector", "selector: hpa-selector=flux-sample"),
    example("status.jobid", "jobid: ƒ2XuJ4Bd"),
    example("status.maximumSize", "maximumSize: 4"),
    example("status.state", "state: Running"),
    example("status.reason", "reason: CommandFailed"),
    example("status.readyBrokers", "readyBrokers: 4"),
    example("status.exitCode", "exitCode: 0"),
    example("status.startTime", "startTime: 2026-06-01T12:00:00Z"),
    example("status.completionTime", "completionTime: 2026-06-01T12:01:07Z"),
    example("status.observedGeneration", "observedGeneration: 1"),
    example(
        "status.conditions",
        "conditions:\n  - type: Complete\n    status: \"True\"\n    reason: CommandSucceeded\n    message: the command ended with exit code 0\n    lastTransitionTime: 2026-06-01T12:01:07Z",
    ),
    example("status.install.method", "method: Copy"),
    example(
        "status.install.reason",
        "reason: node worker-3 runs containerd 1.7.28, image volumes need 2.1",
    ),
    example("status.timeline[].name", "name: wait-for-lead"),
    example("status.timeline[].startMilliseconds", "startMilliseconds: 120"),
    example("status.timeline[].durationMilliseconds", "durationMilliseconds: 840"),
];
