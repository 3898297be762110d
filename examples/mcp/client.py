"""Starts flux-mcp by the command of its arguments, and prints what a job on two nodes prints."""

import json
import subprocess
import sys

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), file=server.stdin, flush=True)


def ask(id, method, **params):
    send(id=id, method=method, params=params)
    for line in server.stdout:
        answer = json.loads(line)
        if answer.get("id") == id:
            return answer["result"]
    sys.exit(f"no answer to {method}")


def call(id, tool, **arguments):
    result = ask(id, "tools/call", name=tool, arguments=arguments)["structuredContent"]["result"]
    if not result["success"]:
        sys.exit(f"{tool}: {result['error']}")
    return result


client = {"name": "example", "version": "1"}
ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
send(method="notifications/initialized")
job = call(2, "flux_submit_job", command=["hostname"], num_nodes=2, num_tasks=2)["job_id"]
print(*call(3, "flux_get_job_logs", job_id=job)["lines"], sep="", end="")
server.stdin.close()
sys.exit(server.wait())
