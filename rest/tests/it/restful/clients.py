"""What users of flux-restful do with its clients, as Python and as command line: first argument the package, second that
of its command line. FLUX_RESTFUL_HOST, FLUX_USER, FLUX_TOKEN and FLUX_SECRET_KEY are set, as these clients want it. A job
that prints `one` has to run; one that sleeps may wait. With a third argument, the instance is ended at last."""

import importlib
import json
import subprocess
import sys
import time

DEADLINE_SECONDS = 120


def expect(what, found, holds):
    """End with the words found unless they are as expected."""
    if not holds:
        sys.exit(f"{what}: {found!r}")


def await_end(client, job):
    """Wait until the job has ended."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (info := client.jobs(job))["state"] != "INACTIVE":
        expect("the job does not end", info, time.monotonic() < deadline)
        time.sleep(0.2)
    return info


def use(client):
    """Use the client from Python."""
    # The first request is answered with 401: the old client repeats it with everything in the body.
    submitted = client.submit(["echo", "one"], num_tasks=1, envars={"A": "it's"}, workdir="/tmp")
    job = submitted["id"]
    expect("submit", submitted, submitted["Message"] == "Job submit." and isinstance(job, int))
    info = await_end(client, job)
    ended = (info["id"], info["name"], info["result"], info["returncode"])
    expect("info", info, ended == (job, "echo", "COMPLETED", 0))
    output = client.output(job)
    expect("output", output, output == {"Output": ["one\n"]})

    waiting = client.submit("sleep 600", envars={"A": "it's"}, option_flags={"verbose": 0})["id"]
    jobs = client.jobs()["jobs"]
    expect("jobs", jobs, {job, waiting} <= {listed["id"] for listed in jobs})
    every = client.search()
    expect("search", every, every["recordsTotal"] == len(every["data"]) == len(jobs))
    first = client.search(query="sleep", start=0, length=1)
    expect("search for sleep", first, [found["id"] for found in first["data"]] == [waiting])
    none = client.output(waiting)
    expect("output of sleep", none, "not exist yet" in none["Message"])
    for words in ("requested to cancel", "cannot be cancelled"):
        canceled = client.cancel(waiting)
        expect("cancel", canceled, words in canceled["Message"])
        expect("canceled", waiting, await_end(client, waiting)["result"] == "CANCELED")
    expect("an unknown job", None, client.jobs(12345) is None)

    nodes = client.list_nodes()
    expect("nodes", nodes, len(nodes["nodes"]) > 0)
    for wrong, word in (({"-ompi": "x"}, "keys without -o"), ({"a..b": "x"}, "name of an option")):
        refused = client.submit("true", option_flags=wrong)
        expect("a wrong option", refused, word in refused["Errors"][0])
    refused = client.submit("true", is_launcher=True)
    expect("a launcher", refused, "starts no launcher" in refused["Errors"][0])


def use_command_line(module, stop):
    """Use the command line: each call is a process, which hands its token over."""

    def cli(*words):
        program = f"from {module} import run_flux_restful_client as run; run()"
        ran = subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
        )
        expect(f"flux-restful-cli {words}", ran.stderr, ran.returncode == 0)
        return ran.stdout

    job = str(json.loads(cli("submit", "--num_tasks", "1", "--env", "A=b", "echo", "one"))["id"])
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (info := json.loads(cli("info", job)))["state"] != "INACTIVE":
        expect("the job does not end", info, time.monotonic() < deadline)
    expect("logs", job, cli("logs", job) == "one\n")
    waiting = str(json.loads(cli("submit", "sleep", "600"))["id"])
    expect("cancel", waiting, "requested to cancel" in cli("cancel", waiting))
    expect("list-jobs", job, {job, waiting} <= set(map(str, ids(cli("list-jobs")))))
    expect("list-nodes", job, len(json.loads(cli("list-nodes"))["nodes"]) > 0)
    if stop:
        expect("stop-service", job, "shuts down" in cli("stop-service"))


def ids(text):
    """The ids in a list of jobs."""
    return [listed["id"] for listed in json.loads(text)["jobs"]]


def main():
    """Both."""
    package, command_line, *stop = sys.argv[1:]
    use(importlib.import_module(package).get_client())
    use_command_line(command_line, stop)


main()
