"""What users of the Python SDK for the Go operator do, in the namespace that is the argument."""

import sys
import tempfile
import time

import fluxoperator.models as models
from fluxoperator.client import FluxBrokerMiniCluster
from kubernetes import client, config

DEADLINE_SECONDS = 180


def create(namespace, name, size, **spec):
    """Create a MiniCluster from the SDK's models, and wait for its pods as the SDK does."""
    command = spec.pop("command", None)
    container = models.MiniClusterContainer(image="ubuntu:24.04", run_flux=True, command=command)
    minicluster = models.MiniCluster(
        kind="MiniCluster",
        api_version="flux-framework.org/v1alpha2",
        metadata=client.V1ObjectMeta(name=name, namespace=namespace),
        spec=models.MiniClusterSpec(size=size, containers=[container], **spec),
    )
    created = client.CustomObjectsApi().create_namespaced_custom_object(
        group="flux-framework.org",
        version="v1alpha2",
        namespace=namespace,
        plural="miniclusters",
        body=minicluster,
    )
    loaded = FluxBrokerMiniCluster()
    loaded.load(created)
    return loaded


def expect(what, found, holds):
    """End with 1 and the words found unless they are as expected."""
    if not holds:
        sys.exit(f"{what}: {found!r}")


def await_size(minicluster, size):
    """Wait until the broker answers: the SDK only waits for pods that run."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        found = minicluster.execute("flux getattr size", print_result=False)
        if found.strip() == str(size):
            break
        expect("the broker does not answer", found, time.monotonic() < deadline)
        time.sleep(1)


def main():
    """Submit to one MiniCluster, follow another."""
    namespace = sys.argv[1]
    config.load_kube_config()

    shared = create(namespace, "shared", 2, interactive=True)
    await_size(shared, 2)
    submitted = shared.execute("flux submit hostname")
    expect("flux submit", submitted, len(submitted.split()) == 1 and submitted[0] in "ƒf")
    ran = shared.execute("flux run -N2 hostname")
    expect("flux run -N2 hostname", ran, sorted(ran.split()) == ["shared-0", "shared-1"])
    jobs = shared.execute("flux jobs -a")
    expect("flux jobs -a", jobs, jobs.count(" hostname ") == 2)
    host = shared.kubectl_exec("hostname")
    expect("kubectl_exec", host, host.strip() == "shared-0")
    expect("the names of the pods", shared.pods, len(shared.pods) == 2)
    nodes = shared.get_nodes().items
    expect("get_nodes", len(nodes), nodes)

    printing = create(namespace, "printing", 1, command="echo from flux")
    with tempfile.NamedTemporaryFile("r") as file:
        lines = printing.stream_output(file.name)
        expect("stream_output", lines, "from flux" in lines)
        written = file.read()
        expect("the file of stream_output", written, "from flux\n" in written)

    shared.delete()
    pods = client.CoreV1Api().list_namespaced_pod(namespace).items
    left = [pod.metadata.name for pod in pods if pod.metadata.name.startswith("shared-")]
    expect("pods after delete", left, not left)


main()
