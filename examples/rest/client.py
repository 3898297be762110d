"""Runs a command as a job of an instance, and prints what it prints: python3 client.py URL COMMAND [ARGUMENT...]"""

import json
import os
import sys
import time
import urllib.request


class Instance:
    def __init__(self, url, token):
        self.url, self.token = url.rstrip("/") + "/api/v1", token

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        with urllib.request.urlopen(request) as answer:
            return answer.read()

    def submit(self, command, **job):
        return json.loads(self.call("POST", "/jobs", {"command": command, **job}))["id"]

    def wait(self, id):
        while (job := json.loads(self.call("GET", f"/jobs/{id}")))["state"] != "INACTIVE":
            time.sleep(1)
        return job


if __name__ == "__main__":
    instance = Instance(sys.argv[1], os.environ["TOKEN"])
    id = instance.submit(sys.argv[2:])
    job = instance.wait(id)
    sys.stdout.write(instance.call("GET", f"/jobs/{id}/output").decode())
    sys.exit(job["returncode"])
