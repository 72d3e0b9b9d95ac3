"""Runs Ray's own checks over cluster files, and prints what Ray understood as JSON.

Ray's schema, the preparation that fills in its defaults, and the part of its Google Cloud provider that looks at node
configurations; nothing here asks Google anything.
"""

import json
import logging
import sys

import yaml
from ray.autoscaler._private.gcp import config as gcp
from ray.autoscaler._private.gcp.node_provider import GCPNodeProvider
from ray.autoscaler._private.util import prepare_config, validate_config


def look(file):
    with open(file) as f:
        config = prepare_config(yaml.safe_load(f))
    validate_config(config)
    types = config["available_node_types"]
    on_gcp = config["provider"]["type"] == "gcp"
    if on_gcp:
        assert not gcp._is_head_node_a_tpu(config)
    if on_gcp:
        config = GCPNodeProvider.fillout_available_node_types_resources(config)
    return {
        "prepared": config,
        "cluster_name": config["cluster_name"],
        "provider": config["provider"],
        "image": config["docker"].get("image"),
        "head": config["head_node_type"],
        "setup": config["setup_commands"],
        "types": {
            name: {
                "min": t.get("min_workers"),
                "max": t.get("max_workers"),
                "resources": t["resources"],
                "kind": gcp.get_node_type(t["node_config"]).value if on_gcp else None,
                "accelerator": t["node_config"].get("acceleratorType"),
                "runtime": t["node_config"].get("runtimeVersion"),
                "preemptible": t["node_config"].get("schedulingConfig", {}).get("preemptible"),
            }
            for name, t in types.items()
        },
    }


logging.disable(logging.WARNING)
json.dump({file: look(file) for file in sys.argv[1:]}, sys.stdout)
