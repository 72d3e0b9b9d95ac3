//! Tasks, actors and placement groups of simulated jobs: four training steps and one actor for each running driver;
//! with simulated activity, one step on each host of the driver's slice, or one that waits.

use super::super::cluster::Cluster;
use super::super::cluster::processes::{Group, Process, Task};
use super::rows::listing;
use serde_json::{Map, Value, json};

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
    let row = |(i, (job, process)): (usize, (&str, Process))| {
        let mut row = json!({
            "actor_id": format!("{i:024x}{job}"), "class_name": "Holder", "state": "ALIVE", "job_id": job,
            "name": "holder", "node_id": process.node.to_string(), "pid": process.pid, "ray_namespace": "train",
        });
        if detail {
            extend(
                &mut row,
                &json!({
                    "serialized_runtime_env": "{}", "required_resources": {"CPU": 1.0}, "death_cause": null,
                    "is_detached": false, "placement_group_id": null, "repr_name": "", "num_restarts": "0",
                    "num_restarts_due_to_lineage_reconstruction": "0", "num_restarts_due_to_node_preemption": "0",
                    "call_site": null, "label_selector": {},
                }),
            );
        }
        row
    };
    cluster.actors().enumerate().map(row).collect()
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
            let bundle = |(i, node): (usize, String)| {
                json!({
                    "bundle_id": {"placement_group_id": id, "bundle_index": i}, "node_id": node,
                    "unit_resources": {"CPU": 1.0, "TPU": 4.0}, "label_selector": {},
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
    let summary = match states(rows) {
        None => json!({}),
        Some(states) => json!({"train_step": {"func_or_class_name": "train_step", "type": "NORMAL_TASK",
            "state_counts": states}}),
    };
    summarized(
        rows.len(),
        &json!({"summary": summary, "total_tasks": rows.len(), "total_actor_tasks": 0,
        "total_actor_scheduled": 0, "summary_by": "func_name"}),
    )
}

/// `/api/v0/actors/summarize` of rows that matched the filters.
pub(super) fn actor_summary(rows: &[Value]) -> String {
    let summary = match states(rows) {
        None => json!({}),
        Some(states) => json!({"Holder": {"class_name": "Holder", "state_counts": states}}),
    };
    summarized(rows.len(), &json!({"summary": summary, "total_actors": rows.len(), "summary_by": "class"}))
}

/// Number of rows in each state; `None` without rows.
fn states(rows: &[Value]) -> Option<Map<String, Value>> {
    let mut states = Map::new();
    for row in rows {
        let count = states.entry(row["state"].as_str().unwrap_or_default()).or_insert(json!(0));
        *count = json!(count.as_u64().unwrap_or(0) + 1);
    }
    (!rows.is_empty()).then_some(states)
}

fn summarized(rows: usize, cluster: &Value) -> String {
    listing(rows, rows, &json!({"node_id_to_summary": {"cluster": cluster}}))
}
