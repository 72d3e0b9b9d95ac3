"""A node provider for Ray's autoscaler: `local` (real hosts reached by ssh) with several node types, of which those
whose `node_config` says `fail` are refused, as a cloud without quota does."""

import subprocess
import sys

from ray.autoscaler._private.local.node_provider import LocalNodeProvider
from ray.autoscaler.node_launch_exception import NodeLaunchException
from ray.autoscaler.tags import (
    NODE_KIND_HEAD,
    STATUS_UP_TO_DATE,
    TAG_RAY_NODE_KIND,
    TAG_RAY_NODE_NAME,
    TAG_RAY_NODE_STATUS,
    TAG_RAY_USER_NODE_TYPE,
)


class StuckProvider(LocalNodeProvider):
    def __init__(self, provider_config, cluster_name):
        super().__init__(provider_config, cluster_name)
        head = provider_config["head_ip"]
        addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()
        # Autoscaler v2 considers a head that is not among the nodes an unmanaged worker.
        if head in addresses and head not in self.non_terminated_nodes({}):
            tags = {
                TAG_RAY_NODE_KIND: NODE_KIND_HEAD,
                TAG_RAY_USER_NODE_TYPE: provider_config["head_type"],
                TAG_RAY_NODE_NAME: f"ray-{cluster_name}-head",
                TAG_RAY_NODE_STATUS: STATUS_UP_TO_DATE,
            }
            self.state.put(head, {"state": "running", "tags": tags})

    def create_node(self, node_config, tags, count):
        if tags[TAG_RAY_NODE_KIND] != NODE_KIND_HEAD and "fail" in node_config:
            try:
                raise RuntimeError(node_config["detail"])
            except RuntimeError:
                raise NodeLaunchException(node_config["fail"], node_config["detail"], sys.exc_info()) from None
        return super().create_node(node_config, tags, count)

    @staticmethod
    def bootstrap_config(cluster_config):
        return cluster_config
