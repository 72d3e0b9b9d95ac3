//! Creates the parts of a worker at Compute Engine, each once by its name. Removes what a failed attempt has created,
//! and nothing else.

use super::super::failure;
use super::super::journal::Journal;
use super::super::performer::Performer;
use super::super::problem::problem;
use super::compute::ComputeRequest;
use super::follow::passes;
use super::request::stands_for;
use super::steps::StepProgress;
use crate::gcp::{GcpError, Google, MadePart, Part, PartKind, TpuPlace};
use crate::model::cloud::{TpuVm, VmState};
use crate::model::text::printable;
use crate::model::{Hint, Problem, Text, Timestamp, Verb};
use serde_json::Value;

/// Reason why a part was not created.
struct Unmade {
    problem: Problem,
    /// Whether another attempt may succeed by itself; then the parts created so far are kept.
    may_pass: bool,
}

impl From<GcpError> for Unmade {
    fn from(e: GcpError) -> Self {
        // No quota is left, unless Google says when to retry.
        let is_over = matches!(e, GcpError::Quota { after: None, .. });
        Self { problem: problem(&e), may_pass: passes(&e) && !is_over }
    }
}

impl Performer {
    /// Creates a worker's parts. `false` if Google already has a matching worker of this name, of this cluster; then
    /// that one is followed.
    pub(super) async fn make(
        &mut self,
        request: &ComputeRequest,
        place: &TpuPlace,
        journal: &Journal,
        progress: &StepProgress<'_>,
    ) -> Result<bool, Problem> {
        let google = self.options.google.clone();
        if !self.executor.is_recording()
            && let Some(there) = listed(&google, place, &request.name).await?
        {
            return follows(&there, request).map(|()| false);
        }
        for part in &request.parts {
            match self.make_part(&google, place, part, journal, progress).await {
                Ok(()) => {}
                Err(Unmade { problem, may_pass: true }) => return Err(problem),
                Err(Unmade { problem, may_pass: false }) => {
                    self.unmake(&google, place, &request.name, journal, progress).await?;
                    let again = Verb::Resume.to("resume to request it again");
                    return Err(Problem { hint: problem.hint.clone().and(again), ..problem });
                }
            }
        }
        Ok(true)
    }

    async fn make_part(
        &mut self,
        google: &Google,
        place: &TpuPlace,
        part: &Part,
        journal: &Journal,
        progress: &StepProgress<'_>,
    ) -> Result<(), Unmade> {
        let (kind, name) = (part.kind, part.name.as_str());
        let begun = match self.executor.google_begins(google, &google.insertion(place, part)).await {
            Ok(None) => return Ok(()),
            Ok(Some(begun)) => begun,
            Err(e @ GcpError::Exists { .. }) => {
                let Some(there) = google.part(place, kind, name).await? else { return Err(e.into()) };
                same(part, &there, place)?;
                progress.say(format!("{name}: the {} already exists", kind.word()));
                return Ok(());
            }
            Err(e) => return Err(e.into()),
        };
        // Recorded before waiting for it, so that a resume knows that it is ours.
        let made = MadePart { kind, name: name.to_owned(), id: begun.target().to_owned() };
        self.facts.worker.made.push(made);
        self.keep_facts(journal).await.map_err(|problem| Unmade { problem, may_pass: true })?;
        google.end(begun).await?;
        progress.say(format!("{name}: {} created", kind.word()));
        Ok(())
    }

    /// Removes what this operation has created under this name, the last part first.
    async fn unmake(
        &mut self,
        google: &Google,
        place: &TpuPlace,
        name: &str,
        journal: &Journal,
        progress: &StepProgress<'_>,
    ) -> Result<(), Problem> {
        let made: Vec<MadePart> =
            self.facts.worker.made.iter().rev().filter(|m| m.name == name).cloned().collect();
        for part in made {
            let word = part.kind.word();
            let removed = match google.part_deletion(place, &part).await {
                Ok(Some(deletion)) => self.executor.google(google, &deletion, None).await.map(|()| true),
                Ok(None) => Ok(false),
                Err(e) => Err(e),
            };
            match removed {
                Ok(true) => progress.say(format!("{name}: {word} deleted")),
                Ok(false) | Err(GcpError::NotFound { .. }) => {}
                // The original failure is reported; the next attempt finds this part and uses it.
                Err(e) => {
                    progress.say(format!("{name}: {word} could not be deleted: {e}"));
                    continue;
                }
            }
            self.facts.worker.made.retain(|m| *m != part);
        }
        self.keep_facts(journal).await
    }
}

/// The cluster's TPU at Compute Engine with this name.
async fn listed(google: &Google, place: &TpuPlace, name: &str) -> Result<Option<TpuVm>, Problem> {
    let view = google.tpus(&place.project, &place.zone, Timestamp::now()).await.map_err(|e| problem(&e))?;
    if let Some(why) = view.unlisted {
        let what = format!("cannot determine whether {name} already exists: {why}");
        return Err(failure(what, Verb::Resume.to("resume once it can be listed")));
    }
    let ours = |vm: &TpuVm| vm.ray_cluster.as_ref().is_some_and(|label| label.raw() == place.cluster);
    Ok(view.vms.into_iter().find(|vm| vm.compute.is_some() && vm.name.raw() == name && ours(vm)))
}

fn follows(there: &TpuVm, request: &ComputeRequest) -> Result<(), Problem> {
    let is_over = there.state.is_gone() || matches!(there.state, VmState::Stopped | VmState::Deleting);
    let over = is_over.then(|| format!("it is {}", there.state.word()));
    let wanted = Text::new(request.accelerator.as_str());
    stands_for(&request.name, (&there.accelerator_type, there.capacity, over), (&wanted, request.capacity))
}

/// An error unless the existing part with this name is what would be created.
fn same(part: &Part, there: &Value, place: &TpuPlace) -> Result<(), Unmade> {
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
    let (word, name) = (part.kind.word(), &part.name);
    let what = format!("the {word} {name} already exists and is different: {}", differs.join("; "));
    let hint = Hint::from(format!("choose another name, or delete it: `{}`", deletion(part, place)));
    Err(Unmade { problem: failure(what, hint), may_pass: false })
}

/// The startup script of a template.
fn script(body: &Value) -> Option<&str> {
    let items = body["properties"]["metadata"]["items"].as_array()?;
    items.iter().find(|item| item["key"] == "startup-script")?["value"].as_str()
}

/// The `gcloud` command that deletes it.
fn deletion(part: &Part, place: &TpuPlace) -> String {
    let (name, zone, region) = (&part.name, &place.zone, place.region());
    let rest = match part.kind {
        PartKind::WorkloadPolicy => format!("resource-policies delete {name} --region={region}"),
        PartKind::InstanceTemplate => format!("instance-templates delete {name} --region={region}"),
        PartKind::InstanceGroup => format!("instance-groups managed delete {name} --zone={zone}"),
        PartKind::Instance => format!("instances delete {name} --zone={zone}"),
    };
    printable(&format!("gcloud compute {rest} --project={}", place.project)).into_owned()
}
