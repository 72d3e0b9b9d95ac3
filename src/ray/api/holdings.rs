//! The resources that all drivers of a cluster hold and wait for, from the lists of the state API (`GET /api/v0/tasks`,
//! `/api/v0/actors`, `/api/v0/placement_groups`): four requests for the whole cluster, however many jobs it has.

use super::super::client::Client;
use super::super::convert::{envelope, names::is_shadow};
use super::super::json::{Num, Str, Table, read_with};
use super::RayError;
use super::groups::Group;
use crate::model::sort;
use crate::model::{Holding, JobId, NodeId, Text, Timestamp, Wait};
use serde::Deserialize;
use std::collections::HashMap;

/// Maximum number of rows of each list; a row with details is about a kilobyte. Ray's own limit is 10,000.
const MAX_ROWS: u32 = 2000;

/// The resources that the drivers of a cluster hold and wait for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holdings {
    /// By driver; a driver without an entry has no running or waiting task or actor, unless lists were cut.
    pub by_job: HashMap<JobId, Holding>,
    /// What Ray omitted from its lists, one sentence each.
    pub cut: Vec<String>,
    /// Total size of the lists in bytes.
    pub bytes: usize,
}

impl Holdings {
    /// The resources that a driver holds and waits for; none when the lists are incomplete.
    pub fn of(&self, job: Option<&JobId>) -> Option<Holding> {
        let whole = self.cut.is_empty();
        whole.then(|| job.and_then(|job| self.by_job.get(job)).cloned().unwrap_or_default())
    }
}

/// A task or an actor.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Row<'a> {
    #[serde(borrow)]
    job_id: Str<'a>,
    #[serde(borrow)]
    node_id: Str<'a>,
    #[serde(borrow)]
    class_name: Str<'a>,
    /// The type of a task; empty for an actor.
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow)]
    state: Str<'a>,
    required_resources: Table<Num>,
    creation_time_ms: Num,
    attempt_number: Num,
    #[serde(borrow)]
    num_restarts: Str<'a>,
}

/// One of the lists that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Running,
    Waiting,
    Actors,
    Groups,
}

impl List {
    const ALL: [Self; 4] = [Self::Running, Self::Waiting, Self::Actors, Self::Groups];

    /// Its kind and state, as Ray names them.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Running => ("tasks", "RUNNING"),
            Self::Waiting => ("tasks", "PENDING_NODE_ASSIGNMENT"),
            Self::Actors => ("actors", "ALIVE"),
            Self::Groups => ("placement_groups", "PENDING"),
        }
    }
}

/// Adds a list to the holdings.
fn merge(all: &mut Holdings, list: List, text: &str) -> Result<(), serde_json::Error> {
    let (rows, filtered) = if list == List::Groups {
        let listed = envelope::listed::<Group>(text)?;
        for group in &listed.result.0 {
            let its = all.by_job.entry(JobId(group.creator_job_id.text())).or_default();
            wait(its, group.shape(), group.created());
        }
        (listed.result.0.len(), listed.num_filtered)
    } else {
        let listed = envelope::listed::<Row>(text)?;
        for row in listed.result.0.iter().filter(|row| !row.is_supervisor()) {
            row.add_to(all.by_job.entry(JobId(row.job_id.text())).or_default());
        }
        (listed.result.0.len(), listed.num_filtered)
    };
    let left_out = filtered.whole().unwrap_or_default().saturating_sub(rows as u64);
    if left_out > 0 {
        let (kind, state) = list.names();
        let (kind, state) = (kind.replace('_', " "), state.to_lowercase().replace('_', " "));
        all.cut.push(format!("Ray lists only {rows} {state} {kind}; {left_out} more are not included"));
    }
    Ok(())
}

/// The resources that one driver holds and waits for, from a list of its tasks or its actors.
pub(super) fn of_driver(text: &str) -> Result<Holding, serde_json::Error> {
    let mut its = Holding::default();
    envelope::listed::<Row>(text)?.result.0.iter().for_each(|row| row.add_to(&mut its));
    sort::by_key(&mut its.waits, |wait| std::cmp::Reverse(wait.count));
    Ok(its)
}

impl Row<'_> {
    /// Whether it is the actor that runs an entrypoint, whose resources are in the job's record.
    fn is_supervisor(&self) -> bool {
        self.class_name.0 == "JobSupervisor"
    }

    /// Adds the resources that it holds or waits for. A pending actor is listed as its creation task.
    fn add_to(&self, its: &mut Holding) {
        let needs = self.required_resources.0.iter().filter_map(|(name, n)| Some((plain(name)?, n.0?)));
        let holds = match (&*self.r#type.0, &*self.state.0) {
            (_, "PENDING_NODE_ASSIGNMENT") => {
                let shape = needs.map(|(name, n)| (Text::from(name), n)).collect();
                wait(its, shape, self.creation_time_ms.millis());
                return;
            }
            (_, "ALIVE") => {
                its.actors += 1;
                true
            }
            (kind, "RUNNING") => {
                its.tasks += 1;
                // The task that an actor runs holds nothing: the actor does.
                kind == "NORMAL_TASK"
            }
            _ => return,
        };
        its.nodes.extend(NodeId::from_hex(&self.node_id.0));
        let again = self.attempt_number.whole().or_else(|| self.num_restarts.0.parse().ok());
        its.restarts += again.unwrap_or_default();
        for (name, n) in needs.filter(|_| holds) {
            *its.holds.entry(name.to_owned()).or_default() += n;
        }
    }
}

/// The resource that a placement group's resource stands for. `TPU_group_<id>` counts; `TPU_group_0_<id>` repeats it,
/// and the bundle itself is not a resource.
fn plain(name: &str) -> Option<&str> {
    if !is_shadow(name) {
        return Some(name);
    }
    let (resource, tail) = name.split_once("_group_")?;
    (resource != "bundle" && !tail.contains('_')).then_some(resource)
}

/// Adds a waiting task, actor or group; those that request the same resources are counted together.
fn wait(its: &mut Holding, shape: Vec<(Text, f64)>, since: Option<Timestamp>) {
    match its.waits.iter_mut().find(|wait| wait.shape == shape) {
        Some(same) => {
            same.count += 1;
            same.since = [same.since, since].into_iter().flatten().min();
        }
        None => its.waits.push(Wait { shape, count: 1, since }),
    }
}

impl Client {
    /// The resources that all drivers hold and wait for. Takes four requests.
    ///
    /// # Errors
    ///
    /// Tasks or actors cannot be listed. Placement groups are left out when they cannot be listed.
    pub async fn holdings(&self) -> Result<Holdings, RayError> {
        let mut all = Holdings::default();
        for list in List::ALL {
            let (kind, state) = list.names();
            let filter = format!("filter_keys=state&filter_predicates=%3D&filter_values={state}");
            let route = format!("/api/v0/{kind}?{filter}&detail=1&limit={MAX_ROWS}");
            let read = match self.get(&route).await {
                Ok(body) => read_with(&route, &body, |text| {
                    let mut with = all.clone();
                    merge(&mut with, list, text)?;
                    with.bytes += text.len();
                    Ok(with)
                }),
                Err(e) => Err(e),
            };
            match read {
                Ok(with) => all = with,
                // The rest is known without placement groups.
                Err(e) if list == List::Groups && !e.is_token() => {}
                Err(e) => return Err(e),
            }
        }
        for holding in all.by_job.values_mut() {
            sort::by_key(&mut holding.waits, |wait| std::cmp::Reverse(wait.count));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::convert::fixtures::{VERSIONS, text};
    use super::*;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn listed(rows: &Value, filtered: usize) -> String {
        json!({"data": {"result": {"total": filtered, "num_filtered": filtered, "result": rows}}}).to_string()
    }

    #[test]
    fn four_lists_become_what_each_driver_holds_and_waits_for() {
        let node = "a0".repeat(28);
        let shadow = |name: &str| format!("{name}_{}", "0e91".repeat(9));
        let mut all = Holdings::default();
        let running = json!([
            {"job_id": "01000000", "type": "NORMAL_TASK", "state": "RUNNING", "node_id": node, "attempt_number": 2,
             "required_resources": {"CPU": 1.0, "TPU": 4.0}},
            {"job_id": "01000000", "type": "ACTOR_TASK", "state": "RUNNING", "node_id": node, "required_resources": {"CPU": 1.0}},
        ]);
        let waiting = json!([
            {"job_id": "02000000", "state": "PENDING_NODE_ASSIGNMENT", "required_resources": {"CPU": 1.0, "TPU-v4-32-head": 1.0}, "creation_time_ms": 9000.0},
            {"job_id": "02000000", "state": "PENDING_NODE_ASSIGNMENT", "required_resources": {"CPU": 1.0, "TPU-v4-32-head": 1.0}, "creation_time_ms": 4000.0},
        ]);
        let actors = json!([
            {"job_id": "01000000", "class_name": "Trainer", "state": "ALIVE", "node_id": node, "num_restarts": "1",
             "required_resources": {shadow("GPU_group"): 2.0, shadow("GPU_group_0"): 2.0, shadow("bundle_group"): 0.001}},
            {"job_id": "03000000", "class_name": "JobSupervisor", "state": "ALIVE", "node_id": node, "required_resources": {"CPU": 9.0}},
        ]);
        let groups = json!([
            {"creator_job_id": "03000000", "bundles": [{"unit_resources": {"TPU": 4.0}}, {"unit_resources": {"TPU": 4.0}}],
             "stats": {"creation_request_received_ns": "7000000000"}},
        ]);
        for (list, rows) in List::ALL.into_iter().zip([running, waiting, actors, groups]) {
            merge(&mut all, list, &listed(&rows, rows.as_array().unwrap().len())).unwrap();
        }
        let of = |id: &str| all.of(Some(&JobId(id.into()))).unwrap();
        let first = of("01000000");
        let holds: Vec<_> = first.holds.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(holds, [("CPU", 1.0), ("GPU", 2.0), ("TPU", 4.0)]);
        assert_eq!((first.tasks, first.actors, first.restarts, first.nodes.len()), (2, 1, 3, 1));
        let second = of("02000000").waits;
        assert_eq!(
            (second.len(), second[0].count, second[0].since),
            (1, 2, Some(Timestamp::from_millis(4000)))
        );
        let third = of("03000000");
        assert_eq!((third.holds.len(), third.waits[0].shape.clone()), (0, vec![("TPU".into(), 8.0)]));
        assert_eq!(third.waits[0].since, Some(Timestamp::from_millis(7000)), "since it was requested");
        assert_eq!((of("09000000"), all.of(None)), (Holding::default(), Some(Holding::default())));
    }

    #[test]
    fn incomplete_lists_yield_no_holdings() {
        let mut all = Holdings::default();
        merge(&mut all, List::Running, &listed(&json!([{"job_id": "01000000"}]), 4000)).unwrap();
        assert_eq!(all.of(None), None);
        assert_eq!(all.cut, ["Ray lists only 1 running tasks; 3999 more are not included"]);
    }

    #[test]
    fn recorded_tasks_and_actors_hold_what_they_require() {
        for version in VERSIONS {
            let held = ["busy_v0_tasks", "busy_v0_actors"]
                .map(|kind| of_driver(&text(version, kind)).unwrap().holds);
            assert!(
                held.iter().all(|h| !h.is_empty() && h.values().all(|n| *n > 0.0)),
                "{version}: {held:?}"
            );
        }
    }

    #[test]
    fn tasks_that_wait_for_the_same_resources_are_one_wait_since_the_oldest() {
        let row = |state: &str, needs: &str, at: u64| {
            format!(
                "{{\"type\": \"NORMAL_TASK\", \"state\": \"{state}\", \"creation_time_ms\": {at}.0, \"required_resources\": {{{needs}}}}}"
            )
        };
        let rows = [
            row("PENDING_NODE_ASSIGNMENT", "\"TPU\": 4", 3),
            row("PENDING_NODE_ASSIGNMENT", "\"CPU\": 1", 1),
            row("PENDING_NODE_ASSIGNMENT", "\"TPU\": 4", 2),
            row("PENDING_ARGS_AVAIL", "\"TPU\": 4", 1),
            row("RUNNING", "\"TPU\": 4", 1),
        ];
        let list =
            format!("{{\"result\": true, \"data\": {{\"result\": {{\"result\": [{}]}}}}}}", rows.join(", "));
        let wait = |name: &str, n: f64, count, at| Wait {
            shape: vec![(name.into(), n)],
            count,
            since: Some(Timestamp::from_millis(at)),
        };
        assert_eq!(of_driver(&list).unwrap().waits, [wait("TPU", 4.0, 2, 2), wait("CPU", 1.0, 1, 1)]);
    }

    #[test]
    fn waiting_tasks_and_tasks_of_actors_hold_nothing() {
        let group = "e9154e65c0a6fb61b6cf1577f1c104000000";
        let row = |kind: &str, state: &str, needs: &str| {
            format!("{{\"type\": \"{kind}\", \"state\": \"{state}\", \"required_resources\": {{{needs}}}}}")
        };
        let rows = [
            row("NORMAL_TASK", "RUNNING", "\"TPU\": 4, \"CPU\": 1"),
            row("NORMAL_TASK", "PENDING_NODE_ASSIGNMENT", "\"TPU\": 4"),
            row("ACTOR_TASK", "RUNNING", "\"TPU\": 4"),
            row("ACTOR_CREATION_TASK", "RUNNING", "\"TPU\": 4"),
            row(
                "NORMAL_TASK",
                "RUNNING",
                &format!(
                    "\"TPU_group_0_{group}\": 2, \"TPU_group_{group}\": 2, \"bundle_group_{group}\": 0.001"
                ),
            ),
        ];
        let list =
            format!("{{\"result\": true, \"data\": {{\"result\": {{\"result\": [{}]}}}}}}", rows.join(", "));
        assert_eq!(
            of_driver(&list).unwrap().holds,
            BTreeMap::from([("TPU".to_owned(), 6.0), ("CPU".to_owned(), 1.0)])
        );
    }
}
