"""The DaemonSet against the schema of the API of Kubernetes, which packaging/kubernetes keeps.

jsonschema and PyYAML come with altair and distributed.
"""

import copy
import json
from pathlib import Path

import jsonschema
import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "packaging" / "kubernetes"
SCHEMA = json.loads((FOLDER / "daemonset.schema.json").read_text())
MANIFEST = yaml.safe_load((FOLDER / "daemonset.yaml").read_text())


def check(manifest: dict[str, object]) -> None:
    jsonschema.validate(manifest, SCHEMA)


def test_the_daemonset_is_one_of_the_api() -> None:
    check(MANIFEST)
    pod = MANIFEST["spec"]["template"]
    assert MANIFEST["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    containers = pod["spec"]["initContainers"] + pod["spec"]["containers"]
    mounts = {mount["name"] for one in containers for mount in one["volumeMounts"]}
    assert mounts == volumes


@pytest.mark.parametrize(
    "key, value",
    [("hostPid", True), ("hostPID", "yes"), ("containers", None), ("tolerations", {"operator": "Exists"})],
)
def test_what_the_api_does_not_have_is_refused(key: str, value: object) -> None:
    manifest = copy.deepcopy(MANIFEST)
    manifest["spec"]["template"]["spec"][key] = value
    with pytest.raises(jsonschema.ValidationError):
        check(manifest)
