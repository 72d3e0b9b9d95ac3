"""Google's own Python clients against the double: what they ask must be understood, what they are answered must parse.

clients.py URL ADC CHECK: runs one check of those below and fails with what is wrong. Every answer that is parsed by hand
is parsed strictly, so that a field that the real service does not have is an error here.
"""

import json
import sys

import google.auth
from google.api_core import exceptions as wrong
from google.auth import exceptions as wrong_login, iam, identity_pool, impersonated_credentials
from google.auth.compute_engine import credentials as machine
from google.auth.transport.requests import AuthorizedSession, Request
from google.oauth2 import credentials as person, sts
from google.oauth2.credentials import Credentials
from googleapiclient import discovery, discovery_cache, errors
from google.cloud import artifactregistry_v1, compute_v1, resourcemanager_v3, secretmanager_v1, tpu_v2, tpu_v2alpha1
from google.protobuf import json_format

URL, ADC, CHECK = sys.argv[1:4]
PROJECT, ZONE = "hai-test", "us-central2-b"
# By hand: Google's own reading of the file leaves `token_uri` out.
GRANT = {k: v for k, v in json.load(open(ADC)).items() if k != "type"}
CREDENTIALS = Credentials(None, **GRANT)
NO_RETRY = None


def client(kind):
    return kind(credentials=CREDENTIALS, client_options={"api_endpoint": URL}, transport="rest")


def raises(error, call, *words):
    try:
        call()
    except error as e:
        assert type(e) is error, f"{type(e)} for {error}: {e}"
        assert all(w in str(e) for w in words), e
        return e
    raise AssertionError(f"no {error} of {call}")


def crc32c(data):
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def logins():
    """Logins of the folder that is the last argument, as Google's own library reads the files that gcloud writes."""
    folder = sys.argv[4]
    # It has two addresses of its own, with which it overwrites those of the files.
    person._GOOGLE_OAUTH2_TOKEN_ENDPOINT = f"{URL}/token"
    iam._IAM_ENDPOINT = f"{URL}/v1/projects/-/serviceAccounts/{{}}:generateAccessToken"
    scope = "https://www.googleapis.com/auth/cloud-platform"
    read = lambda name: google.auth.load_credentials_from_file(f"{folder}/{name}.json", scopes=[scope])[0]
    # Without a question for the name of its project.
    external = lambda name: identity_pool.Credentials.from_file(f"{folder}/{name}.json", scopes=[scope])
    logins = [read("person"), read("impersonated"), external("external"), external("external_impersonates"),
        machine.Credentials(scopes=[scope])]
    for login in logins:
        sm = secretmanager_v1.SecretManagerServiceClient(
            credentials=login, client_options={"api_endpoint": URL}, transport="rest")
        got = sm.access_secret_version(name=f"projects/{PROJECT}/secrets/RAY_AUTH_TOKEN/versions/latest")
        assert got.payload.data == b"x" and login.valid, login
    kinds = [type(login).__module__ for login in logins]
    assert kinds == ["google.oauth2.credentials", "google.auth.impersonated_credentials", "google.auth.identity_pool",
        "google.auth.identity_pool", "google.auth.compute_engine.credentials"], kinds

    # What the Security Token Service refuses (RFC 8693, section 2.2.2).
    good = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": "s", "scopes": [scope],
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "audience": logins[2]._audience,
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token"}
    exchange = sts.Client(f"{URL}/v1/token").exchange_token
    given = exchange(Request(), **good)
    assert given["issued_token_type"] == good["requested_token_type"] and given["token_type"] == "Bearer", given
    for field in ("grant_type", "audience", "requested_token_type", "subject_token", "subject_token_type", "scopes"):
        bad = {**good, field: [] if field == "scopes" else ""}
        raises(wrong_login.OAuthError, lambda: exchange(Request(), **bad), "invalid_request")
    # And who may impersonate: nobody without a token, nor for no scope at all.
    for source, scopes, status in [(person.Credentials("none of ours"), [scope], "UNAUTHENTICATED"),
            (logins[0], [], "INVALID_ARGUMENT")]:
        asks = impersonated_credentials.Credentials(source, "ci@x", scopes)
        raises(wrong_login.RefreshError, lambda: asks.refresh(Request()), "Unable to acquire", status)
    # Nor is there a token for a person without a grant.
    without = {**json.load(open(f"{folder}/person.json")), "refresh_token": ""}
    raises(wrong_login.RefreshError, lambda: Credentials.from_authorized_user_info(without).refresh(Request()))


def secrets():
    sm = client(secretmanager_v1.SecretManagerServiceClient)
    parent, secret = f"projects/{PROJECT}", f"projects/{PROJECT}/secrets/PY"
    replication = {"replication": {"automatic": {}}}
    create = lambda: sm.create_secret(parent=parent, secret_id="PY", secret=replication)
    assert create().name.endswith("/secrets/PY")
    raises(wrong.Conflict, create)
    missing = lambda: sm.access_secret_version(name=f"{secret}/versions/latest")
    raises(wrong.NotFound, missing)
    for text in (b"first", b"second", b"third"):
        payload = {"data": text, "data_crc32c": crc32c(text)}
        made = sm.add_secret_version(parent=secret, payload=payload)
        assert made.client_specified_payload_checksum and made.state.name == "ENABLED", made
    bad = {"data": b"x", "data_crc32c": 1}
    raises(wrong.BadRequest, lambda: sm.add_secret_version(parent=secret, payload=bad), "checksum")
    got = sm.access_secret_version(name=f"{secret}/versions/latest")
    assert got.payload.data == b"third" and got.payload.data_crc32c == crc32c(b"third"), got
    assert got.name.endswith("/versions/3"), got.name
    assert sm.access_secret_version(name=f"{secret}/versions/1").payload.data == b"first"
    # The double puts two on a page.
    versions = [v.name.rsplit("/", 1)[1] for v in sm.list_secret_versions(parent=secret)]
    assert versions == ["3", "2", "1"], versions
    names = [s.name.rsplit("/", 1)[1] for s in sm.list_secrets(parent=parent)]
    assert names == ["OFF", "PY", "RAY_AUTH_TOKEN"], names
    off = f"projects/{PROJECT}/secrets/OFF/versions/latest"
    raises(wrong.BadRequest, lambda: sm.access_secret_version(name=off), "DISABLED")
    theirs = "projects/other/secrets/X/versions/latest"
    e = raises(wrong.Forbidden, lambda: sm.access_secret_version(name=theirs))
    assert e.reason == "IAM_PERMISSION_DENIED" and e.metadata["permission"], e


def finished(operation):
    """A zone's operation at its end. The clients' own `delete` would ask at the real address for it."""
    operations = client(compute_v1.ZoneOperationsClient)
    states = [operation.status.name]
    while states[-1] != "DONE":
        assert len(states) < 10, states
        operation = operations.get(project=PROJECT, zone=ZONE, operation=operation.name)
        states.append(operation.status.name)
    assert states[:2] == ["PENDING", "RUNNING"], states
    return operation


def compute():
    instances = client(compute_v1.InstancesClient)
    label = '(labels.ray-node-type = "head") AND (labels.ray-cluster-name = "a")'

    def pages(**more):
        """The client has no `returnPartialSuccess` yet: its messages over an authorized session."""
        session, token, pages = AuthorizedSession(CREDENTIALS), "", []
        while token is not None:
            query = {"filter": label, "returnPartialSuccess": "true", "pageToken": token}
            url = f"{URL}/compute/v1/projects/{PROJECT}/aggregated/instances"
            answer = session.get(url, params=query)
            assert answer.status_code == 200, answer.text
            page = compute_v1.InstanceAggregatedList.from_json(answer.text, ignore_unknown_fields=False)
            pages.append(page)
            token = page.next_page_token or None
        return pages

    # A zone is out of reach: without partial success that is a failure.
    request = compute_v1.AggregatedListInstancesRequest(project=PROJECT, filter=label)
    raises(wrong.ServiceUnavailable, lambda: list(instances.aggregated_list(request=request, retry=NO_RETRY)))
    partial = pages()
    scopes = [scope for page in partial for scope in page.items.values()]
    found = [i for scope in scopes for i in scope.instances]
    warnings = [s.warning.code for s in scopes if not s.instances]
    assert len(partial) == 2 and [i.name for i in found] == ["ray-a-head-1", "ray-a-head-2"], found
    assert "NO_RESULTS_ON_PAGE" in warnings and list(partial[0].unreachables) == ["zones/us-east1-z"], partial
    assert found[0].network_interfaces[0].access_configs[0].nat_i_p == "34.0.0.1", found[0]
    assert found[0].labels["ray-cluster-name"] == "a" and found[0].zone.endswith(f"/zones/{ZONE}")

    delete = lambda name: instances.delete_unary(project=PROJECT, zone=ZONE, instance=name)
    get = lambda which: instances.get(project=PROJECT, zone=ZONE, instance=which)
    head = get("ray-a-head-1")
    assert head.id == found[0].id != found[1].id and head.labels["ray-node-type"] == "head", head
    assert get(str(head.id)) == head
    done = finished(delete(str(head.id)))
    assert not done.error.errors and done.target_link.endswith("/instances/ray-a-head-1"), done
    raises(wrong.NotFound, lambda: get("ray-a-head-1"), "was not found")
    raises(wrong.NotFound, lambda: delete(str(head.id)), "was not found")
    raises(wrong.NotFound, lambda: delete("ray-a-head-1"), "was not found")
    theirs = compute_v1.AggregatedListInstancesRequest(project="other")
    raises(wrong.Forbidden, lambda: list(instances.aggregated_list(request=theirs)), "compute.instances.list")


def groups():
    """Instance groups by name and by id: made once, changed against a fingerprint, deleted."""
    groups = client(compute_v1.InstanceGroupsClient)
    at = {"project": PROJECT, "zone": ZONE}
    note = '{"id":"00000000aaaaaaaa"}'
    ports = [compute_v1.NamedPort(name="step", port=4), compute_v1.NamedPort(name="seen-1763797681000", port=1)]
    group = compute_v1.InstanceGroup(name="marin-tui-operation-a", description=note, named_ports=ports)
    insert = lambda: groups.insert_unary(**at, instance_group_resource=group)
    get = lambda which: groups.get(**at, instance_group=which)
    raises(wrong.NotFound, lambda: get(group.name), "was not found")
    done = finished(insert())
    assert done.target_link.endswith("/instanceGroups/marin-tui-operation-a"), done
    raises(wrong.Conflict, insert, "already exists")
    made = get(group.name)
    assert made.description == note and made.size == 0 and made.id, made
    assert [(p.name, p.port) for p in made.named_ports] == [("step", 4), ("seen-1763797681000", 1)], made
    assert get(str(made.id)) == made and [g.id for g in groups.list(**at)] == [made.id]
    body = compute_v1.InstanceGroupsSetNamedPortsRequest(
        fingerprint=made.fingerprint, named_ports=[compute_v1.NamedPort(name="stopped", port=5)])
    change = lambda: groups.set_named_ports_unary(
        **at, instance_group=str(made.id), instance_groups_set_named_ports_request_resource=body)
    finished(change())
    changed = get(group.name)
    assert [(p.name, p.port) for p in changed.named_ports] == [("stopped", 5)], changed
    assert changed.fingerprint != made.fingerprint and changed.description == note, changed
    raises(wrong.PreconditionFailed, change, "fingerprint")
    bad = compute_v1.InstanceGroup(name="Not_a_name")
    raises(wrong.BadRequest, lambda: groups.insert_unary(**at, instance_group_resource=bad))
    delete = lambda: groups.delete_unary(**at, instance_group=str(made.id))
    finished(delete())
    raises(wrong.NotFound, delete, "was not found")
    finished(insert())
    assert get(group.name).id != made.id


def managed():
    """Managed instance groups with TPUs: a slice, single hosts, and one of a region; their instances and templates."""
    groups, regional = client(compute_v1.InstanceGroupManagersClient), client(compute_v1.RegionInstanceGroupManagersClient)
    instances, templates = client(compute_v1.InstancesClient), client(compute_v1.InstanceTemplatesClient)
    at = {"project": PROJECT, "zone": ZONE}
    pages = list(groups.aggregated_list(project=PROJECT))
    found = {g.name: g for _, scope in pages for g in scope.instance_group_managers}
    assert sorted(found) == ["many", "of-region", "slice"], found
    slice = groups.get(**at, instance_group_manager="slice")
    assert slice == found["slice"] and slice.target_size == 2 and slice.id, slice
    assert slice.resource_policies.workload_policy.endswith("/resourcePolicies/slice"), slice
    assert slice.target_size_policy.mode == "BULK" and slice.status.is_stable is False, slice
    assert slice.status.bulk_instance_operation.last_progress_check.error.errors[0].message == "no capacity", slice
    assert slice.status.applied_accelerator_topologies[0].state == "INCOMPLETE", slice
    template = templates.get(project=PROJECT, instance_template=slice.instance_template.rsplit("/", 1)[1])
    assert template.properties.machine_type == "tpu7x-standard-4t", template
    assert template.properties.labels["ray-cluster-name"] == "a" and template.properties.scheduling.provisioning_model == "SPOT"

    # The answers to what this client cannot ask, or reads loosely, parsed strictly.
    session = AuthorizedSession(CREDENTIALS)
    base = f"{URL}/compute/v1/projects/{PROJECT}"
    query = {"filter": "machineType eq .*/machineTypes/(ct|tpu)[0-9].*", "returnPartialSuccess": "true"}
    answer = session.get(f"{base}/aggregated/instances", params=query)
    tpus = compute_v1.InstanceAggregatedList.from_json(answer.text, ignore_unknown_fields=False)
    tpus = {i.name: i for scope in tpus.items.values() for i in scope.instances}
    assert sorted(tpus) == ["many-0", "slice-0"], tpus
    request = compute_v1.AggregatedListInstancesRequest(project=PROJECT, filter=query["filter"])
    same = [i.name for _, scope in instances.aggregated_list(request=request) for i in scope.instances]
    assert sorted(same) == sorted(tpus), same
    made_by = {i.key: i.value for i in tpus["slice-0"].metadata.items}["created-by"]
    assert made_by.endswith(f"/zones/{ZONE}/instanceGroupManagers/slice"), made_by
    answer = session.get(f"{base}/aggregated/instanceGroupManagers", params={"returnPartialSuccess": "true"})
    compute_v1.InstanceGroupManagerAggregatedList.from_json(answer.text, ignore_unknown_fields=False)

    requests = client(compute_v1.InstanceGroupManagerResizeRequestsClient)
    asked = {r.name: r for r in requests.list(**at, instance_group_manager="many")}
    assert [(r.name, r.state, r.resize_by) for r in asked.values()] == [("waits", "ACCEPTED", 2), ("failed", "FAILED", 1)], asked
    assert asked["waits"].status.last_attempt.error.errors[0].message == "no capacity yet", asked
    assert asked["failed"].status.error.errors[0].message == "no quota" and asked["failed"].creation_timestamp, asked
    assert not list(requests.list(**at, instance_group_manager="slice"))
    raises(wrong.NotFound, lambda: list(requests.list(**at, instance_group_manager="none")), "was not found")
    answer = session.get(f"{base}/zones/{ZONE}/instanceGroupManagers/many/resizeRequests")
    compute_v1.InstanceGroupManagerResizeRequestsListResponse.from_json(answer.text, ignore_unknown_fields=False)

    managed = list(groups.list_managed_instances(**at, instance_group_manager="slice"))
    assert [m.current_action for m in managed] == ["NONE", "CREATING"], managed
    assert managed[0].id == tpus["slice-0"].id and not managed[1].id and not managed[1].instance_status, managed
    answer = session.post(f"{base}/zones/{ZONE}/instanceGroupManagers/slice/listManagedInstances")
    compute_v1.InstanceGroupManagersListManagedInstancesResponse.from_json(answer.text, ignore_unknown_fields=False)

    # An instance that is deleted past its group is there again, as another one.
    get = lambda: instances.get(**at, instance="many-0")
    old = get().id
    finished(instances.delete_unary(**at, instance="many-0"))
    assert get().id != old and get().status == "PROVISIONING"
    def without(which):
        body = compute_v1.InstanceGroupManagersDeleteInstancesRequest(instances=[f"zones/{ZONE}/instances/{which}"])
        return groups.delete_instances_unary(**at, instance_group_manager="many",
            instance_group_managers_delete_instances_request_resource=body)
    raises(wrong.BadRequest, lambda: without("slice-0"), "not members")
    finished(without("many-0"))
    raises(wrong.NotFound, get, "was not found")
    assert groups.get(**at, instance_group_manager="many").target_size == 0
    delete = lambda: groups.delete_unary(**at, instance_group_manager="slice")
    done = finished(delete())
    assert done.target_link.endswith(f"/zones/{ZONE}/instanceGroupManagers/slice"), done
    raises(wrong.NotFound, delete, "was not found")
    raises(wrong.NotFound, lambda: instances.get(**at, instance="slice-0"), "was not found")
    in_region = {"project": PROJECT, "region": "us-central2"}
    assert regional.get(**in_region, instance_group_manager="of-region") == found["of-region"]
    operation = regional.delete_unary(**in_region, instance_group_manager="of-region")
    operations = client(compute_v1.RegionOperationsClient)
    while operation.status.name != "DONE":
        operation = operations.get(**in_region, operation=operation.name)
    assert operation.region.endswith("/regions/us-central2") and not operation.zone, operation
    assert not [g for _, scope in groups.aggregated_list(project=PROJECT) for g in scope.instance_group_managers if g.name != "many"]


def making():
    """What a TPU is made of, made by name in the order in which one needs the other, and deleted in the reverse one."""
    region = ZONE.rsplit("-", 1)[0]
    at, within = {"project": PROJECT, "zone": ZONE}, {"project": PROJECT, "region": region}
    policies, templates = client(compute_v1.ResourcePoliciesClient), client(compute_v1.RegionInstanceTemplatesClient)
    groups, instances = client(compute_v1.InstanceGroupManagersClient), client(compute_v1.InstancesClient)

    def finished_there(operation):
        operations, target = client(compute_v1.RegionOperationsClient), operation.target_id
        while operation.status.name != "DONE":
            operation = operations.get(**within, operation=operation.name)
        assert operation.target_id == target and not operation.error.errors, operation
        return operation

    policy = compute_v1.ResourcePolicy(name="w", description="d", workload_policy=compute_v1.ResourcePolicyWorkloadPolicy(
        type_="HIGH_THROUGHPUT", accelerator_topology="2x2x2"))
    make = lambda: policies.insert_unary(**within, resource_policy_resource=policy)
    done = finished_there(make())
    made = policies.get(**within, resource_policy="w")
    assert made.id == done.target_id and made.description == "d" and made.region.endswith(f"/{region}"), made
    assert made.workload_policy == policy.workload_policy, made
    raises(wrong.Conflict, make, "already exists")

    image = "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accel-2404-amd64-tpu-tpu7x"
    disk = compute_v1.AttachedDisk(boot=True, auto_delete=True,
        initialize_params=compute_v1.AttachedDiskInitializeParams(source_image=image, disk_size_gb=100))
    card = compute_v1.NetworkInterface(network="global/networks/default",
        access_configs=[compute_v1.AccessConfig(type_="ONE_TO_ONE_NAT", name="External NAT")])
    scheduling = compute_v1.Scheduling(provisioning_model="SPOT", instance_termination_action="STOP",
        on_host_maintenance="TERMINATE", automatic_restart=False)
    common = dict(disks=[disk], network_interfaces=[card], scheduling=scheduling, labels={"ray-cluster-name": "a"},
        metadata=compute_v1.Metadata(items=[compute_v1.Items(key="startup-script", value="#!/bin/sh")]),
        service_accounts=[compute_v1.ServiceAccount(email="default", scopes=["https://www.googleapis.com/auth/cloud-platform"])])
    template = compute_v1.InstanceTemplate(name="w", description="d",
        properties=compute_v1.InstanceProperties(machine_type="tpu7x-standard-4t", **common))
    make = lambda body=template: templates.insert_unary(**within, instance_template_resource=body)
    done = finished_there(make())
    made = templates.get(**within, instance_template="w")
    assert made.id == done.target_id and made.properties.labels == {"ray-cluster-name": "a"}, made
    assert made.properties.scheduling == scheduling and made.properties.disks[0].initialize_params.disk_size_gb == 100, made
    raises(wrong.Conflict, make, "already exists")
    raises(wrong.NotFound, lambda: client(compute_v1.InstanceTemplatesClient).get(project=PROJECT, instance_template="w"))
    no_image = compute_v1.InstanceTemplate(template)
    no_image.name, no_image.properties.disks[0].initialize_params.source_image = "x", image + "-none"
    raises(wrong.NotFound, lambda: make(no_image), "tpu7x-none")

    group = compute_v1.InstanceGroupManager(name="w", base_instance_name="w", description="d", target_size=2,
        instance_template=f"projects/{PROJECT}/regions/{region}/instanceTemplates/w",
        target_size_policy=compute_v1.InstanceGroupManagerTargetSizePolicy(mode="BULK"),
        instance_lifecycle_policy=compute_v1.InstanceGroupManagerInstanceLifecyclePolicy(default_action_on_failure="DO_NOTHING"),
        resource_policies=compute_v1.InstanceGroupManagerResourcePolicies(
            workload_policy=f"projects/{PROJECT}/regions/{region}/resourcePolicies/w"))
    make = lambda body=group: groups.insert_unary(**at, instance_group_manager_resource=body)
    too_many = compute_v1.InstanceGroupManager(group)
    too_many.target_size = 3
    raises(wrong.BadRequest, lambda: make(too_many), "chips")
    done = finished(make())
    made = groups.get(**at, instance_group_manager="w")
    assert made.id == done.target_id and made.target_size == 2 and made.target_size_policy.mode == "BULK", made
    assert made.instance_template.endswith("/instanceTemplates/w") and made.instance_template.startswith("https://"), made
    assert made.status.is_stable is False and made.current_actions.creating == 2, made
    raises(wrong.Conflict, make, "already exists")
    without_policy = lambda: policies.delete_unary(**within, resource_policy="w")
    without_template = lambda: templates.delete_unary(**within, instance_template="w")
    raises(wrong.BadRequest, without_policy, "already being used")
    raises(wrong.BadRequest, without_template, "already being used")
    finished(groups.delete_unary(**at, instance_group_manager="w"))
    finished_there(without_template())
    finished_there(without_policy())
    raises(wrong.NotFound, without_policy, "was not found")
    raises(wrong.NotFound, without_template, "was not found")

    single = compute_v1.Instance(name="one", description="d", machine_type=f"zones/{ZONE}/machineTypes/ct6e-standard-4t", **common)
    make = lambda: instances.insert_unary(**at, instance_resource=single)
    done = finished(make())
    made = instances.get(**at, instance="one")
    assert made.id == done.target_id and made.status == "PROVISIONING" and made.labels == {"ray-cluster-name": "a"}, made
    assert made.machine_type.endswith("/machineTypes/ct6e-standard-4t") and made.zone.endswith(f"/zones/{ZONE}"), made
    raises(wrong.Conflict, make, "already exists")


def no_capacity():
    """An instance for which there is none: the operation says so, and nothing is left of it."""
    instances = client(compute_v1.InstancesClient)
    image = "projects/debian-cloud/global/images/family/debian-12"
    disk = compute_v1.AttachedDisk(boot=True, initialize_params=compute_v1.AttachedDiskInitializeParams(source_image=image))
    single = compute_v1.Instance(name="one", machine_type=f"zones/{ZONE}/machineTypes/n2-standard-8", disks=[disk],
        network_interfaces=[compute_v1.NetworkInterface(network="global/networks/default")])
    failed = finished(instances.insert_unary(project=PROJECT, zone=ZONE, instance_resource=single))
    assert failed.error.errors[0].code == "ZONE_RESOURCE_POOL_EXHAUSTED" and failed.target_id, failed
    raises(wrong.NotFound, lambda: instances.get(project=PROJECT, zone=ZONE, instance="one"))


def operations_that_fail():
    instances = client(compute_v1.InstancesClient)
    failed = finished(instances.delete_unary(project=PROJECT, zone=ZONE, instance="ray-a-head-1"))
    assert failed.error.errors[0].message == "in use by another", failed
    assert failed.http_error_status_code == 400, failed
    tpu = client(tpu_v2.TpuClient)
    operation = tpu.delete_node(name=f"projects/{PROJECT}/locations/{ZONE}/nodes/n1")
    raises(wrong.ResourceExhausted, lambda: operation.result(timeout=60), "in use by another")


def tpus():
    tpu = client(tpu_v2.TpuClient)
    parent = f"projects/{PROJECT}/locations/{ZONE}"
    nodes = list(tpu.list_nodes(parent=parent))
    assert [n.name.rsplit("/", 1)[1] for n in nodes] == ["n1", "n2", "n3"], nodes
    assert [n.state.name for n in nodes] == ["READY", "PREEMPTED", "CREATING"], nodes
    first = tpu.get_node(name=f"{parent}/nodes/n1")
    assert first.accelerator_type == "v4-16" and first.labels["ray-cluster-name"] == "a", first
    assert [e.ip_address for e in first.network_endpoints] == ["10.1.0.1", "10.1.0.2"], first
    assert first.scheduling_config.preemptible and first.health.name == "HEALTHY", first
    raises(wrong.NotFound, lambda: tpu.get_node(name=f"{parent}/nodes/none"))
    operation = tpu.delete_node(name=f"{parent}/nodes/n2")
    operation.result(timeout=60)
    assert operation.metadata.target.endswith("/nodes/n2") and operation.metadata.verb == "delete"
    assert len(list(tpu.list_nodes(parent=parent))) == 2
    raises(wrong.NotFound, lambda: tpu.delete_node(name=f"{parent}/nodes/n2"))

    spec = {"parent": parent, "node_id": "q1-node",
            "node": {"accelerator_type": "v4-128", "runtime_version": "tpu-ubuntu2204-base"}}
    queued = {"tpu": {"node_spec": [spec]}, "spot": {}}
    create = lambda: tpu.create_queued_resource(
        parent=parent, queued_resource_id="q1", queued_resource=queued)
    made = create().result(timeout=60)
    assert made.name == f"{parent}/queuedResources/q1" and made.tpu.node_spec[0].node_id == "q1-node", made
    assert made.state.state.name == "WAITING_FOR_RESOURCES", made.state
    raises(wrong.Conflict, create)
    assert [q.name for q in tpu.list_queued_resources(parent=parent)] == [made.name]
    assert tpu.get_queued_resource(name=made.name) == made
    raises(wrong.BadRequest, lambda: tpu.delete_queued_resource(name=made.name), "force")
    tpu.delete_queued_resource(request={"name": made.name, "force": True}).result(timeout=60)
    raises(wrong.NotFound, lambda: tpu.get_queued_resource(name=made.name))


def tpus_alpha():
    """v2alpha1 has no client over REST: its messages over an authorized session."""
    session = AuthorizedSession(CREDENTIALS)
    parent = f"projects/{PROJECT}/locations/{ZONE}"

    def call(method, path, message, **more):
        answer = session.request(method, f"{URL}/v2alpha1/{path}", **more)
        assert answer.status_code == 200, answer.text
        return json_format.Parse(answer.text, message.pb()())

    queued = tpu_v2alpha1.QueuedResource(
        tpu={"node_spec": [{"parent": parent, "node_id": "q2-node", "node": {"accelerator_type": "v4-128"}}]},
        best_effort={})
    body = json.loads(tpu_v2alpha1.QueuedResource.to_json(
        queued, always_print_fields_with_no_presence=False))
    path = f"{parent}/queuedResources?queuedResourceId=q2"
    first = session.post(f"{URL}/v2alpha1/{path}", json=body)
    assert first.status_code == 200, first.text
    operation = first.json()
    for _ in range(5):
        if operation["done"]:
            break
        operation = session.get(f"{URL}/v2alpha1/{operation['name']}").json()
    assert operation["response"].pop("@type").endswith("tpu.v2alpha1.QueuedResource"), operation
    assert operation["metadata"].pop("@type").endswith("tpu.v2alpha1.OperationMetadata"), operation
    json_format.ParseDict(operation["response"], tpu_v2alpha1.QueuedResource.pb()())
    json_format.ParseDict(operation["metadata"], tpu_v2alpha1.OperationMetadata.pb()())
    assert session.post(f"{URL}/v2alpha1/{path}", json=body).status_code == 409
    listed = call("GET", f"{parent}/queuedResources", tpu_v2alpha1.ListQueuedResourcesResponse)
    assert listed.queued_resources[0].HasField("best_effort"), listed
    nodes, token = [], ""
    while True:
        page = call("GET", f"{parent}/nodes?pageToken={token}", tpu_v2alpha1.ListNodesResponse)
        nodes += page.nodes
        token = page.next_page_token
        if not token:
            break
    assert len(nodes) == 3, nodes
    # What only v2alpha1 has is no field of v2's.
    refused = session.post(f"{URL}/v2/{path}3", json=body)
    assert refused.status_code == 400 and "bestEffort" in refused.json()["error"]["message"], refused.text


def flex_start():
    """Fields that google-cloud-tpu does not know yet: the double against the discovery documents of Google's API client."""
    parent = f"projects/{PROJECT}/locations/{ZONE}"
    schemas = lambda version: json.loads(discovery_cache.get_static_doc("tpu", version))["schemas"]

    def fits(version, kind, value):
        """Every field is one of the document's, and every word one of its enumeration."""
        all = schemas(version)

        def check(schema, value, at):
            schema = all[schema["$ref"]] if "$ref" in schema else schema
            if "enum" in schema:
                assert value in schema["enum"], f"{at}: {value}"
            if "properties" in schema:
                for key, inner in value.items():
                    assert key in schema["properties"], f"{at}: {version} has no field {key}"
                    check(schema["properties"][key], inner, f"{at}.{key}")
            for item in value if schema["type"] == "array" else []:
                check(schema["items"], item, at)

        check({"$ref": kind}, value, kind)

    queued = lambda version: discovery.build("tpu", version, credentials=CREDENTIALS, static_discovery=True,
        client_options={"api_endpoint": URL}, cache_discovery=False).projects().locations().queuedResources()
    node = {"parent": parent, "nodeId": "flex", "node": {"acceleratorType": "v6e-8", "runtimeVersion": "v2-alpha-tpuv6e"}}
    body = {"tpu": {"nodeSpec": [node]}, "provisioningModel": "FLEX_START", "runDuration": {"maxRunDuration": "604800s"}}
    fits("v2alpha1", "QueuedResource", body)
    create = lambda version: queued(version).create(parent=parent, queuedResourceId="flex", body=body).execute()
    operation = create("v2alpha1")
    fits("v2alpha1", "Operation", {k: v for k, v in operation.items() if k not in ("metadata", "response")})
    listed = queued("v2alpha1").list(parent=parent).execute()
    fits("v2alpha1", "ListQueuedResourcesResponse", listed)
    only = listed["queuedResources"][0]
    assert only["provisioningModel"] == "FLEX_START" and only["runDuration"] == body["runDuration"], only
    # v2 has no such field, in the document and in the double.
    try:
        fits("v2", "QueuedResource", body)
        raise SystemExit("v2 has the field now")
    except AssertionError as e:
        assert "v2 has no field" in str(e), e
    e = raises(errors.HttpError, lambda: create("v2"))
    assert e.status_code == 400 and "provisioningModel" in e.reason, e
    assert raises(errors.HttpError, lambda: create("v2alpha1")).status_code == 409


def registry():
    ar = client(artifactregistry_v1.ArtifactRegistryClient)
    parent = f"projects/{PROJECT}/locations/us-central2/repositories/marin"
    images = list(ar.list_docker_images(parent=parent))
    assert [list(i.tags) for i in images] == [["20261101"], ["20261120", "latest"], [], ["latest"]], images
    assert images[1].image_size_bytes == 5368709120 and images[1].upload_time.year == 2026, images[1]
    tags = list(ar.list_tags(parent=f"{parent}/packages/marin_cluster"))
    assert sorted(t.name.rsplit("/", 1)[1] for t in tags) == ["20261101", "20261120", "latest"], tags
    raises(wrong.NotFound, lambda: list(ar.list_docker_images(parent=parent + "x")))
    theirs = parent.replace(PROJECT, "other")
    raises(wrong.Forbidden, lambda: list(ar.list_docker_images(parent=theirs)), "artifactregistry")


def repositories():
    """Repositories are made, listed, and given clean-up policies by a mask."""
    ar = client(artifactregistry_v1.ArtifactRegistryClient)
    parent = f"projects/{PROJECT}/locations/us-central2"
    name = f"{parent}/repositories/marin"
    get = lambda: ar.get_repository(name=name)
    raises(wrong.NotFound, get)
    docker = artifactregistry_v1.Repository(format_="DOCKER", description="images")
    create = lambda which="marin": ar.create_repository(parent=parent, repository_id=which, repository=docker)
    made = create().result(timeout=60)
    assert made.name == name and made.format_.name == "DOCKER" and made.description == "images", made
    raises(wrong.Conflict, create)
    raises(wrong.BadRequest, lambda: create("Not_a_name"), "repository_id")
    create("other").result(timeout=60)
    # The double puts one on a page.
    assert [r.name for r in ar.list_repositories(parent=parent)] == [name, f"{parent}/repositories/other"]
    assert get() == made and not made.cleanup_policies

    old = artifactregistry_v1.CleanupPolicy(
        id="old", action="DELETE", condition={"tag_state": "ANY", "older_than": {"seconds": 2592000}})
    keep = artifactregistry_v1.CleanupPolicy(id="keep", action="KEEP", most_recent_versions={"keep_count": 16})

    def update(mask, **fields):
        repository = artifactregistry_v1.Repository(name=name, **fields)
        return ar.update_repository(repository=repository, update_mask={"paths": mask})

    both = update(["cleanup_policies"], cleanup_policies={"old": old, "keep": keep})
    assert both.cleanup_policies["old"] == old and both.cleanup_policies["keep"] == keep, both
    assert both.description == "images" and get() == both
    tried = update(["cleanup_policy_dry_run"], cleanup_policy_dry_run=True)
    assert tried.cleanup_policy_dry_run and len(tried.cleanup_policies) == 2, tried
    # The mask replaces the whole map, and a default goes with it.
    one = update(["cleanup_policies", "cleanup_policy_dry_run"], cleanup_policies={"keep": keep})
    assert list(one.cleanup_policies) == ["keep"] and not one.cleanup_policy_dry_run, one
    assert get() == one
    many = {f"p{n}": artifactregistry_v1.CleanupPolicy(id=f"p{n}", action="KEEP") for n in range(11)}
    raises(wrong.BadRequest, lambda: update(["cleanup_policies"], cleanup_policies=many), "10")
    # As the service writes it, read strictly.
    answer = AuthorizedSession(CREDENTIALS).get(f"{URL}/v1/{name}")
    json_format.Parse(answer.text, artifactregistry_v1.Repository.pb()())
    assert answer.json()["cleanupPolicies"]["keep"]["action"] == "KEEP", answer.text
    theirs = name.replace(PROJECT, "other")
    raises(wrong.Forbidden, lambda: ar.get_repository(name=theirs), "artifactregistry")


def permissions():
    """The double's caller lacks `tpu.nodes.delete`."""
    projects = client(resourcemanager_v3.ProjectsClient)
    ask = lambda project, *names: list(projects.test_iam_permissions(
        resource=f"projects/{project}", permissions=names).permissions)
    assert ask(PROJECT, "tpu.nodes.list", "tpu.nodes.delete") == ["tpu.nodes.list"]
    assert ask(PROJECT, "tpu.nodes.delete") == []
    raises(wrong.BadRequest, lambda: ask(PROJECT, "tpu.nodes.list", "tpu"), "tpu is not valid")
    raises(wrong.Forbidden, lambda: ask("other", "tpu.nodes.list"), "other")


def refused():
    """The caller has made every service refuse with the status that is the last argument."""
    error = {403: wrong.Forbidden, 404: wrong.NotFound, 409: wrong.Conflict, 429: wrong.TooManyRequests}
    code = int(sys.argv[4])
    sm, tpu = client(secretmanager_v1.SecretManagerServiceClient), client(tpu_v2.TpuClient)
    compute, ar = client(compute_v1.InstancesClient), client(artifactregistry_v1.ArtifactRegistryClient)
    projects = client(resourcemanager_v3.ProjectsClient)
    parent = f"projects/{PROJECT}/locations/{ZONE}"
    request = compute_v1.AggregatedListInstancesRequest(project=PROJECT)
    calls = [
        lambda: sm.access_secret_version(
            name=f"projects/{PROJECT}/secrets/X/versions/latest", retry=NO_RETRY),
        lambda: list(tpu.list_nodes(parent=parent, retry=NO_RETRY)),
        lambda: tpu.delete_queued_resource(name=f"{parent}/queuedResources/q", retry=NO_RETRY),
        lambda: list(compute.aggregated_list(request=request, retry=NO_RETRY)),
        lambda: list(ar.list_docker_images(parent=f"{parent}/repositories/r", retry=NO_RETRY)),
        lambda: ar.get_repository(name=f"{parent}/repositories/r", retry=NO_RETRY),
        lambda: ar.create_repository(
            parent=parent, repository_id="r", repository={"format_": "DOCKER"}, retry=NO_RETRY),
        lambda: projects.test_iam_permissions(
            resource=f"projects/{PROJECT}", permissions=["tpu.nodes.list"], retry=NO_RETRY),
    ]
    for call in calls:
        try:
            call()
        except error[code] as e:
            assert e.code == code and "as Google says" in str(e), e
        else:
            raise AssertionError(f"no {code}")


{f.__name__: f for f in (
    logins, secrets, compute, groups, managed, making, no_capacity, operations_that_fail, tpus, tpus_alpha, flex_start, registry,
    repositories, permissions, refused)}[CHECK]()
print("all well")
