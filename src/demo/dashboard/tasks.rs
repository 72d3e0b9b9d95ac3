//! Tasks, actors and placement groups of simulated jobs: four training steps and one actor for each running driver;
//! with simulated activity, one step on each host of the driver's slice, or one that waits. Each submission also has
//! the actor that runs its entrypoint.

use super::super::cluster::Cluster;
use super::super::cluster::job::{DASHBOARD, HEAD_IP, SUPERVISOR, SUPERVISOR_DIED};
use super::super::cluster::processes::{Group, Process, Task};
use super::super::cluster::supervisors::Supervisor;
use super::super::json::dumps;
use super::rows::listing;
use crate::model::json::object;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The namespace of the actors that run entrypoints.
const SUPERVISORS: &str = "SUPERVISOR_ACTOR_RAY_NAMESPACE";

/// Rows of `/api/v0/tasks`.
pub(super) fn tasks(cluster: &Cluster, detail: bool) -> Vec<Value> {
    let row = |task: Task| {
        let (process, error) = (task.process.as_ref(), task.error.as_deref());
        let mut row = json!({
            "task_id": task.id, "attempt_number": 0, "name": "train_step", "state": task.state, "job_id": task.job,
            "actor_id": null, "type": "NORMAL_TASK", "func_or_class_name": "train_step",
            "parent_task_id": format!("{}{}", "f".repeat(40), task.job),
            "node_id": process.map(|p| p.node.to_string()), "worker_id": process.map(|p| p.worker.as_str()),
            "worker_pid": process.map(|p| p.pid), "error_type": error.map(|_| "TASK_EXECUTION_EXCEPTION"),
        });
        if detail {
            extend(
                &mut row,
                &json!({
                    "language": "PYTHON", "required_resources": {"CPU": 1.0, task.needs.0.as_str(): task.needs.1}, "runtime_env_info": null,
                    "placement_group_id": null, "profiling_data": {}, "creation_time_ms": task.created as f64,
                    "start_time_ms": task.began.map(|ms| ms as f64), "end_time_ms": task.ended.map(|ms| ms as f64),
                    "task_log_info": null, "error_message": error, "is_debugger_paused": null, "call_site": null,
                    "label_selector": {}, "events": [{"state": "PENDING_ARGS_AVAIL", "created_ms": task.created as f64}],
                }),
            );
        }
        row
    };
    cluster.tasks().into_iter().map(row).collect()
}

/// Rows of `/api/v0/actors`.
pub(super) fn actors(cluster: &Cluster, detail: bool) -> Vec<Value> {
    let holder = |(i, (job, process)): (usize, (&str, Process))| {
        let mut row = json!({
            "actor_id": format!("{i:024x}{job}"), "class_name": "Holder", "state": "ALIVE", "job_id": job,
            "name": "holder", "node_id": process.node.to_string(), "pid": process.pid, "ray_namespace": "train",
        });
        if detail {
            extend(
                &mut row,
                &json!({
                    "serialized_runtime_env": "{}", "required_resources": {}, "death_cause": null,
                    "is_detached": false, "label_selector": {},
                }),
            );
            extend(&mut row, &common_details());
        }
        row
    };
    let supervisors = cluster.supervisors();
    let supervisors = supervisors.iter().map(|its| supervisor(cluster, its, detail));
    cluster.actors().enumerate().map(holder).chain(supervisors).collect()
}

/// Details that are the same for all actors.
fn common_details() -> Value {
    json!({
        "placement_group_id": null, "repr_name": "", "num_restarts": "0",
        "num_restarts_due_to_lineage_reconstruction": "0", "num_restarts_due_to_node_preemption": "0",
        "call_site": null,
    })
}

/// The row of the actor that runs a job's entrypoint.
fn supervisor(cluster: &Cluster, its: &Supervisor<'_>, detail: bool) -> Value {
    let mut row = json!({
        "actor_id": its.id, "class_name": SUPERVISOR, "state": its.state(), "job_id": DASHBOARD, "name": its.name,
        "node_id": its.process.as_ref().map(|process| process.node.to_string()), "pid": pid(its),
        "ray_namespace": SUPERVISORS,
    });
    if detail {
        let environment = its.job.runtime_env.as_ref().map_or_else(|| "{}".to_owned(), dumps);
        extend(
            &mut row,
            &json!({
                "serialized_runtime_env": environment, "required_resources": object(its.job.requested.shape()),
                "death_cause": death_cause(its), "is_detached": true,
                "label_selector": object(cluster.labels_of(its.job)),
            }),
        );
        extend(&mut row, &common_details());
    }
    row
}

fn pid(its: &Supervisor<'_>) -> u32 {
    its.process.as_ref().map_or(0, |process| process.pid)
}

/// Why the actor of an ended job is dead; null for any other.
fn death_cause(its: &Supervisor<'_>) -> Value {
    if !its.job.status.is_ended() {
        return Value::Null;
    }
    let (reason, message) = match () {
        () if its.process.is_none() => ("RAY_KILL", "The actor is dead because it was killed by `ray.kill`."),
        () if its.job.error == Some(SUPERVISOR_DIED) => (
            "NODE_DIED",
            "The actor died because its node has died. the actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats",
        ),
        () => (
            "WORKER_DIED",
            "The actor is dead because its worker process has died. Worker exit type: INTENDED_USER_EXIT Worker exit detail: Worker exits by an user request. Worker exits with an exit code 0. exit_actor() is called.",
        ),
    };
    let address = its.process.as_ref().map_or("", |_| its.job.driver_ip());
    json!({"actor_died_error_context": {
        "error_message": message, "owner_id": format!("{DASHBOARD}{}", "f".repeat(48)), "owner_ip_address": HEAD_IP,
        "node_ip_address": address, "pid": pid(its), "name": its.name, "ray_namespace": SUPERVISORS,
        "class_name": SUPERVISOR, "actor_id": its.id, "reason": reason, "never_started": its.process.is_none(),
    }})
}

/// Rows of `/api/v0/placement_groups`: with simulated activity, one for each run, which is created or pending.
pub(super) fn groups(cluster: &Cluster, detail: bool) -> Vec<Value> {
    let row = |group: Group<'_>| {
        let id = format!("{:028x}{}", group.created, group.job);
        let (state, stage) =
            if group.hosts.is_empty() { ("PENDING", "NO_RESOURCES") } else { ("CREATED", "FINISHED") };
        let mut row = json!({
            "placement_group_id": id, "name": "train", "creator_job_id": group.job, "state": state,
        });
        if detail {
            let needs = object(group.needs);
            let bundle = |(i, node): (usize, String)| {
                json!({
                    "bundle_id": {"placement_group_id": id, "bundle_index": i}, "node_id": node,
                    "unit_resources": needs, "label_selector": {},
                })
            };
            let hosts: Vec<String> = match group.hosts {
                [] => vec![String::new()],
                hosts => hosts.iter().map(ToString::to_string).collect(),
            };
            extend(
                &mut row,
                &json!({
                    "bundles": hosts.into_iter().enumerate().map(bundle).collect::<Vec<_>>(), "is_detached": false,
                    "stats": {
                        "scheduling_state": stage, "scheduling_attempt": 1, "end_to_end_creation_latency_us": "0",
                        "creation_request_received_ns": format!("{}000000", group.created),
                    },
                }),
            );
        }
        row
    };
    cluster.groups().into_iter().map(row).collect()
}

fn extend(row: &mut Value, more: &Value) {
    if let (Some(row), Some(more)) = (row.as_object_mut(), more.as_object()) {
        row.extend(more.clone());
    }
}

/// `/api/v0/tasks/summarize` of rows that matched the filters.
pub(super) fn summary(rows: &[Value]) -> String {
    let steps = json!({"train_step": {"func_or_class_name": "train_step", "type": "NORMAL_TASK",
        "state_counts": states(rows)}});
    let summary = if rows.is_empty() { json!({}) } else { steps };
    summarized(
        rows.len(),
        &json!({"summary": summary, "total_tasks": rows.len(), "total_actor_tasks": 0,
        "total_actor_scheduled": 0, "summary_by": "func_name"}),
    )
}

/// `/api/v0/actors/summarize` of rows that matched the filters.
pub(super) fn actor_summary(rows: &[Value]) -> String {
    let mut classes: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for row in rows {
        classes.entry(row["class_name"].as_str().unwrap_or_default()).or_default().push(row);
    }
    let of_class = |(class, rows): (&str, Vec<&Value>)| {
        (class.to_owned(), json!({"class_name": class, "state_counts": states(rows)}))
    };
    let summary = object(classes.into_iter().map(of_class));
    summarized(rows.len(), &json!({"summary": summary, "total_actors": rows.len(), "summary_by": "class"}))
}

/// Number of rows in each state.
fn states<'a>(rows: impl IntoIterator<Item = &'a Value>) -> Map<String, Value> {
    let mut states = Map::new();
    for row in rows {
        let count = states.entry(row["state"].as_str().unwrap_or_default()).or_insert(json!(0));
        *count = json!(count.as_u64().unwrap_or(0) + 1);
    }
    states
}

fn summarized(rows: usize, cluster: &Value) -> String {
    listing(rows, rows, &json!({"node_id_to_summary": {"cluster": cluster}}))
}

#[cfg(test)]
mod tests {
    use super::super::super::cluster::job::SimJob;
    use super::*;
    use crate::demo::{Clock, Scenario};
    use crate::model::JobStatus;
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    fn cluster(ray_version: &str) -> Cluster {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(1_795_000_000_000)));
        let ray_version = ray_version.to_owned();
        Cluster::new(&Scenario { jobs: 60, changes: 0, ray_version, clock, ..Scenario::default() })
    }

    #[test]
    fn the_actors_of_submissions_have_the_fields_of_rays() {
        for (version, has_label) in [("2.60.0", true), ("2.53.0", false)] {
            let cluster = cluster(version);
            let rows = actors(&cluster, true);
            let of = |state: &str| {
                let mut its =
                    rows.iter().filter(|row| row["class_name"] == SUPERVISOR && row["state"] == state);
                its.find(|row| row["required_resources"] == json!({})).unwrap()
            };
            let (pending, running, ended) = (of("PENDING_CREATION"), of("ALIVE"), of("DEAD"));
            let head = json!(cluster.head().to_string());
            assert_eq!((&pending["node_id"], &pending["pid"]), (&Value::Null, &json!(0)));
            assert_eq!((&running["node_id"], &running["death_cause"]), (&head, &Value::Null));
            let cause = &ended["death_cause"]["actor_died_error_context"];
            assert!(cause["error_message"].as_str().unwrap().contains("INTENDED_USER_EXIT"), "{ended}");
            assert_eq!((&cause["pid"], &cause["name"]), (&ended["pid"], &ended["name"]));
            let labels = if has_label { json!({"ray.io/node-id": head}) } else { json!({}) };
            assert_eq!(running["label_selector"], labels, "{version}");
            let keys = |row: &Value| row.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            let holder = rows.iter().find(|row| row["class_name"] == "Holder").unwrap();
            assert!([pending, running, ended].into_iter().all(|row| keys(row) == keys(holder)));
            assert!(rows.iter().all(|row| row["actor_id"].as_str().unwrap().len() == 32));
        }
    }

    #[test]
    fn the_actor_of_a_job_that_was_stopped_while_it_waited_had_no_node() {
        let mut cluster = cluster("2.60.0");
        let waits = |job: &&SimJob| job.status == JobStatus::Pending && job.submission.is_some();
        let id = cluster.jobs.iter().find(waits).and_then(|job| job.submission.clone()).unwrap();
        assert!(cluster.stop(&id));
        let now = cluster.now;
        cluster.advance(now + 2000);
        let rows = actors(&cluster, true);
        let name = format!("_ray_internal_job_actor_{id}");
        let its = rows.iter().find(|row| row["name"].as_str() == Some(&*name)).unwrap();
        let of = |row: &Value, keys: [&str; 3]| keys.map(|key| row[key].clone());
        let none = [json!("DEAD"), Value::Null, json!(0)];
        assert_eq!(of(its, ["state", "node_id", "pid"]), none, "{its}");
        let cause = &its["death_cause"]["actor_died_error_context"];
        let why = [json!("RAY_KILL"), json!(""), json!(true)];
        assert_eq!(of(cause, ["reason", "node_ip_address", "never_started"]), why, "{its}");
        let head = cluster.head();
        let job: Value = serde_json::from_str(cluster.job(&id).unwrap().text(head)).unwrap();
        let stopped = [json!("STOPPED"), Value::Null, Value::Null];
        assert_eq!(of(&job, ["status", "driver_node_id", "driver_agent_http_address"]), stopped);
    }

    #[test]
    fn a_summary_counts_the_actors_of_each_class() {
        let rows = actors(&cluster("2.60.0"), false);
        let summary: Value = serde_json::from_str(&actor_summary(&rows)).unwrap();
        let summary = &summary["data"]["result"]["result"]["node_id_to_summary"]["cluster"]["summary"];
        for class in ["Holder", SUPERVISOR] {
            let count =
                rows.iter().filter(|row| row["class_name"] == class && row["state"] == "ALIVE").count();
            assert_eq!(summary[class]["state_counts"]["ALIVE"], count, "{summary}");
        }
    }
}
