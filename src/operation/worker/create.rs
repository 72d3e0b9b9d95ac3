//! Creates the parts of a worker at Compute Engine, each once under its name. Deletes the parts that a failed attempt
//! has created, and nothing else.

use super::super::failure;
use super::super::journal::Journal;
use super::super::performer::Performer;
use super::super::problem::problem;
use super::compute::ComputeRequest;
use super::follow::is_transient;
use super::request::check_existing;
use super::steps::StepProgress;
use crate::gcp::{CreatedPart, GcpError, Google, Part, PartKind, TpuLocation};
use crate::model::cloud::{TpuVm, VmState};
use crate::model::text::printable;
use crate::model::{Hint, Problem, Text, Timestamp, Verb};
use serde_json::Value;

/// Reason why a part was not created.
struct CreateError {
    problem: Problem,
    /// Whether another attempt may succeed on its own; then the parts created so far are kept.
    is_temporary: bool,
}

impl From<GcpError> for CreateError {
    fn from(e: GcpError) -> Self {
        // Without a time to retry, the quota is exhausted.
        let is_over = matches!(e, GcpError::Quota { after: None, .. });
        Self { problem: problem(&e), is_temporary: is_transient(&e) && !is_over }
    }
}

impl Performer {
    /// Creates a worker's parts. Returns `false` if Google already has a matching worker of this cluster with this
    /// name; then that one is used.
    pub(super) async fn create_worker(
        &mut self,
        request: &ComputeRequest,
        location: &TpuLocation,
        journal: &Journal,
        progress: &StepProgress<'_>,
    ) -> Result<bool, Problem> {
        let google = self.options.google.clone();
        if !self.executor.is_recording()
            && let Some(there) = listed(&google, location, &request.name).await?
        {
            return follows(&there, request).map(|()| false);
        }
        for part in &request.parts {
            match self.create_part(&google, location, part, journal, progress).await {
                Ok(()) => {}
                Err(CreateError { problem, is_temporary: true }) => return Err(problem),
                Err(CreateError { problem, is_temporary: false }) => {
                    self.delete_parts(&google, location, &request.name, journal, progress).await?;
                    let again = Verb::Resume.to("resume to request it again");
                    return Err(Problem { hint: problem.hint.clone().and(again), ..problem });
                }
            }
        }
        Ok(true)
    }

    async fn create_part(
        &mut self,
        google: &Google,
        location: &TpuLocation,
        part: &Part,
        journal: &Journal,
        progress: &StepProgress<'_>,
    ) -> Result<(), CreateError> {
        let (kind, name) = (part.kind, part.name.as_str());
        let begun = match self.executor.google_begins(google, &google.insertion(location, part)).await {
            Ok(None) => return Ok(()),
            Ok(Some(begun)) => begun,
            Err(e @ GcpError::Exists { .. }) => {
                let Some(there) = google.part(location, kind, name).await? else { return Err(e.into()) };
                same(part, &there, location)?;
                progress.report(format!("{name}: the {} already exists", kind.label()));
                return Ok(());
            }
            Err(e) => return Err(e.into()),
        };
        // Recorded before waiting for it, so that a resume recognizes the part as created by this operation.
        let made = CreatedPart { kind, name: name.to_owned(), id: begun.target().to_owned() };
        self.facts.worker.made.push(made);
        self.keep_facts(journal).await.map_err(|problem| CreateError { problem, is_temporary: true })?;
        google.end(begun).await?;
        progress.report(format!("{name}: {} created", kind.label()));
        Ok(())
    }

    /// Deletes the parts that this operation has created under this name, the last one first.
    async fn delete_parts(
        &mut self,
        google: &Google,
        location: &TpuLocation,
        name: &str,
        journal: &Journal,
        progress: &StepProgress<'_>,
    ) -> Result<(), Problem> {
        let made: Vec<CreatedPart> =
            self.facts.worker.made.iter().rev().filter(|m| m.name == name).cloned().collect();
        for part in made {
            let word = part.kind.label();
            let removed = match google.part_deletion(location, &part).await {
                Ok(Some(deletion)) => self.executor.google(google, &deletion, None).await.map(|()| true),
                Ok(None) => Ok(false),
                Err(e) => Err(e),
            };
            match removed {
                Ok(true) => progress.report(format!("{name}: {word} deleted")),
                Ok(false) | Err(GcpError::NotFound { .. }) => {}
                // The original failure is reported; the next attempt finds this part and uses it.
                Err(e) => {
                    progress.report(format!("{name}: {word} could not be deleted: {e}"));
                    continue;
                }
            }
            self.facts.worker.made.retain(|m| *m != part);
        }
        self.keep_facts(journal).await
    }
}

/// The cluster's TPU at Compute Engine with this name.
async fn listed(google: &Google, location: &TpuLocation, name: &str) -> Result<Option<TpuVm>, Problem> {
    let view =
        google.tpus(&location.project, &location.zone, Timestamp::now()).await.map_err(|e| problem(&e))?;
    if let Some(why) = view.unlisted {
        let what = format!("cannot determine whether {name} already exists: {why}");
        return Err(failure(what, Verb::Resume.to("resume once it can be listed")));
    }
    let ours = |vm: &TpuVm| vm.ray_cluster.as_ref().is_some_and(|label| label.raw() == location.cluster);
    Ok(view.vms.into_iter().find(|vm| vm.compute.is_some() && vm.name.raw() == name && ours(vm)))
}

fn follows(there: &TpuVm, request: &ComputeRequest) -> Result<(), Problem> {
    let is_over = there.state.is_gone() || matches!(there.state, VmState::Stopped | VmState::Deleting);
    let over = is_over.then(|| format!("it is {}", there.state.label()));
    let wanted = Text::new(request.accelerator.as_str());
    check_existing(
        &request.name,
        (&there.accelerator_type, there.capacity, over),
        (&wanted, request.capacity),
    )
}

/// An error unless the existing part with this name is what would be created.
fn same(part: &Part, there: &Value, location: &TpuLocation) -> Result<(), CreateError> {
    let compared: &[&str] = match part.kind {
        PartKind::WorkloadPolicy => &["/workloadPolicy/type", "/workloadPolicy/acceleratorTopology"],
        PartKind::InstanceTemplate => &[
            "/properties/machineType",
            "/properties/labels/ray-cluster-name",
            "/properties/labels/ray-user-node-type",
            "/properties/scheduling/provisioningModel",
        ],
        PartKind::InstanceGroup => &["/targetSize", "/instanceTemplate", "/resourcePolicies/workloadPolicy"],
        PartKind::Instance => &["/machineType", "/labels/ray-cluster-name", "/scheduling/provisioningModel"],
    };
    // A URL is absolute or begins with `projects` or `zones`; names are unique in their location.
    let last = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.rsplit('/').next().unwrap_or_default().to_owned(),
        Some(value) => value.to_string(),
        None => "none".to_owned(),
    };
    let mut differs: Vec<String> = compared
        .iter()
        .map(|at| (at, last(there.pointer(at)), last(part.body.pointer(at))))
        .filter(|(_, there, wanted)| there != wanted)
        .map(|(at, there, wanted)| {
            let key = at.rsplit('/').next().unwrap_or_default();
            format!("{key} {}, not {wanted}", printable(&there))
        })
        .collect();
    if script(&part.body) != script(there) {
        differs.push("a different startup script".to_owned());
    }
    if differs.is_empty() {
        return Ok(());
    }
    let (word, name) = (part.kind.label(), &part.name);
    let what = format!("the {word} {name} already exists and is different: {}", differs.join("; "));
    let hint = Hint::from(format!("choose another name, or delete it: `{}`", deletion(part, location)));
    Err(CreateError { problem: failure(what, hint), is_temporary: false })
}

/// The startup script of a template.
fn script(body: &Value) -> Option<&str> {
    let items = body["properties"]["metadata"]["items"].as_array()?;
    items.iter().find(|item| item["key"] == "startup-script")?["value"].as_str()
}

/// The `gcloud` command that deletes it.
fn deletion(part: &Part, location: &TpuLocation) -> String {
    let (name, zone, region) = (&part.name, &location.zone, location.region());
    let rest = match part.kind {
        PartKind::WorkloadPolicy => format!("resource-policies delete {name} --region={region}"),
        PartKind::InstanceTemplate => format!("instance-templates delete {name} --region={region}"),
        PartKind::InstanceGroup => format!("instance-groups managed delete {name} --zone={zone}"),
        PartKind::Instance => format!("instances delete {name} --zone={zone}"),
    };
    printable(&format!("gcloud compute {rest} --project={}", location.project)).into_owned()
}
