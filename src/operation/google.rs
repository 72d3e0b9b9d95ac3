//! The machines of a cluster in Google Cloud. The head goes first, so that it starts no new TPUs while the others go;
//! then the TPUs of its autoscaler, all at once. Those that a person added stay: they join the new head by themselves.

use super::facts::KnownHead;
use super::journal::Journal;
use super::performer::{LOOK, Performer};
use super::{then_resume, trouble, worker};
use crate::config::Launch;
use crate::gcp::{ChosenTpu, GcpError, Google, Head, TpuPlace};
use crate::model::cloud::TpuVm;
use crate::model::time::brief;
use crate::model::{Problem, ProblemKind, Progress, Provider, Target, Text, Timestamp, Verb};
use crate::supervisor;
use futures_util::stream::{self, StreamExt};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Deletions under way at the same time.
const SIDE_BY_SIDE: usize = 16;
/// What Google may take to drop what it has deleted from its lists.
const DROPPING: Duration = Duration::from_secs(120);

fn problem(e: &GcpError) -> Problem {
    trouble(e.to_string(), then_resume(e.hint()))
}

/// Every machine in its zone that is labelled as the head of this cluster; an error when one might be overlooked.
async fn heads(google: &Google, place: &TpuPlace) -> Result<Vec<Head>, Problem> {
    let mut heads = google.heads(&place.project, Some(&place.cluster)).await.map_err(|e| problem(&e))?;
    heads.keep_within(&place.zone);
    if heads.unreachable.is_empty() {
        return Ok(heads.found);
    }
    let zones: Vec<_> = heads.unreachable.iter().map(ToString::to_string).collect();
    let what = format!("Google could not list heads in {}", zones.join(", "));
    Err(trouble(what, then_resume("wait; see status.cloud.google.com for known outages")))
}

impl Performer {
    pub(super) fn is_google(&self) -> bool {
        self.spec.provider == Provider::Gcp
    }

    /// Whether Google, asked well, knows no head of this cluster.
    pub(super) async fn has_no_head(&self) -> bool {
        match supervisor::tpu_place(&self.spec) {
            Ok(place) => heads(&self.options.google, &place).await.is_ok_and(|found| found.is_empty()),
            Err(_) => false,
        }
    }

    /// Which of these workers a person has added.
    pub(super) async fn manual(&self, workers: &[String]) -> Result<Vec<String>, Problem> {
        if self.is_google() {
            let place = supervisor::tpu_place(&self.spec)?;
            let kept =
                self.options.google.tpus_of_kind(&place, "unmanaged").await.map_err(|e| problem(&e))?;
            let hosts: Vec<String> =
                kept.iter().flat_map(|vm| &vm.hosts).map(|host| host.raw().to_owned()).collect();
            return Ok(workers.iter().filter(|w| hosts.contains(w)).cloned().collect());
        }
        let launch = Launch::of(&self.spec).map_err(|e| trouble(e.what(), &e.hint))?;
        Ok(workers.iter().filter(|w| !launch.worker_ips.contains(w)).cloned().collect())
    }

    /// The heads that there are, as an operation records them when it starts; none on other providers.
    pub(super) async fn known_heads(&self) -> Result<Option<Vec<KnownHead>>, Problem> {
        if !self.is_google() {
            return Ok(None);
        }
        let place = supervisor::tpu_place(&self.spec)?;
        let found = heads(&self.options.google, &place).await?;
        Ok(Some(found.iter().map(KnownHead::from).collect()))
    }

    /// An error if one of these heads was not listed when the operation began, or was created later: then the head and
    /// its workers belong to another operator.
    fn only_known(&self, found: &[Head]) -> Result<(), Problem> {
        let known = self.facts.known_heads.as_deref();
        let begun = self.facts.begun.map(Timestamp::from_millis);
        let is_new = |head: &&Head| {
            let was_there = known.is_some_and(|known| known.contains(&KnownHead::from(*head)));
            !was_there || head.created.zip(begun).is_some_and(|(created, begun)| created > begun)
        };
        let Some(head) = found.iter().find(is_new) else { return Ok(()) };
        let age = head.created.map_or_else(
            || "at an unknown time".to_owned(),
            |at| format!("{} ago", brief(at.age(Timestamp::now()))),
        );
        let name = Text::from(head.name.as_str());
        let what = if known.is_some() {
            format!(
                "another head was started since ({name}, id {}, in {}, created {age}); it was not changed",
                head.id, head.zone
            )
        } else {
            format!("the journal does not record whether head {name} existed when this operation began")
        };
        Err(trouble(what, self.start_again()))
    }

    /// Deletes the head, then the autoscaler's TPUs side by side, and sees that Google lists none of them.
    pub(super) async fn delete_machines(
        &mut self,
        journal: &Journal,
        tell: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(), Problem> {
        let place = supervisor::tpu_place(&self.spec)?;
        let google = self.options.google.clone();
        let say = |words: String| drop(tell.send(Progress::Output(words)));
        let found = heads(&google, &place).await?;
        self.only_known(&found)?;
        if let Some(head) = found.first() {
            let address = if self.spec.google.internal_ips { &head.internal } else { &head.external };
            self.facts.deleted_head.clone_from(address);
            self.keep_facts(journal).await?;
        }
        for head in &found {
            say(format!("deleting the head {} in {}", head.name, head.zone));
            let Some(deletion) = google.head_deletion(&place, head).await.map_err(|e| problem(&e))? else {
                continue;
            };
            match self.executor.google(&google, &deletion, Some(&head.name)).await {
                Ok(()) | Err(GcpError::NotFound { .. }) => {}
                Err(e) => return Err(problem(&e)),
            }
        }
        if !found.is_empty() {
            // It leads to a machine that is gone, and would be found broken much later.
            self.connection.leave().await;
        }
        // A head created in the meantime has workers with the same label.
        self.only_known(&heads(&google, &place).await?)?;
        let workers = google.tpus_of_kind(&place, "worker").await.map_err(|e| problem(&e))?;
        say(format!("deleting {} TPU VMs of its autoscaler", workers.len()));
        let one = |vm: TpuVm| {
            let (executor, google, place) = (&self.executor, &google, &place);
            async move {
                let chosen = ChosenTpu::from(&vm);
                let deleted = match google.tpu_deletion_of(place, Some("worker"), &chosen).await {
                    Ok(None) => Ok(()),
                    Ok(Some(deletion)) => executor.google(google, &deletion, None).await,
                    Err(e) => Err(e),
                };
                match deleted {
                    Ok(()) | Err(GcpError::NotFound { .. }) => None,
                    Err(e) => Some((chosen.name, e)),
                }
            }
        };
        let failed: Vec<_> = stream::iter(workers)
            .map(one)
            .buffer_unordered(SIDE_BY_SIDE)
            .filter_map(async |f| f)
            .collect()
            .await;
        if let Some((name, e)) = failed.first() {
            let what = format!(
                "cannot delete {} TPU VMs, including {}: {e}",
                failed.len(),
                Text::from(name.as_str())
            );
            return Err(trouble(what, then_resume(e.hint())));
        }
        self.see_them_gone(&place).await
    }

    async fn see_them_gone(&self, place: &TpuPlace) -> Result<(), Problem> {
        if self.executor.is_recording() {
            return Ok(());
        }
        let google = &self.options.google;
        let deadline = Instant::now() + DROPPING;
        loop {
            let heads = heads(google, place).await?;
            self.only_known(&heads)?;
            let workers = google.tpus_of_kind(place, "worker").await.map_err(|e| problem(&e))?;
            let worker = || workers.first().map(|vm| vm.name.raw().to_owned());
            let first = heads.first().map(|h| h.name.clone()).or_else(worker);
            match first {
                None => return Ok(()),
                Some(name) if Instant::now() > deadline => {
                    let what =
                        format!("Google reports {} as deleted but still lists it", Text::from(name.as_str()));
                    return Err(trouble(what, Verb::Resume.to("resume in a few minutes")));
                }
                Some(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Accepts the new host key of a head that this operation deleted and recreated at the same address. Any other
    /// change of a host key remains an error.
    pub(super) async fn renew_key(&self, problem: &Problem) {
        let ProblemKind::HostKeyChanged { offered, .. } = &problem.kind else { return };
        let Some(deleted) = &self.facts.deleted_head else { return };
        let Ok(place) = supervisor::tpu_place(&self.spec) else { return };
        let Ok(heads) = heads(&self.options.google, &place).await else { return };
        let address =
            |h: &Head| if self.spec.google.internal_ips { h.internal.clone() } else { h.external.clone() };
        if heads.iter().any(|h| h.status == "RUNNING" && address(h).as_ref() == Some(deleted))
            && let Err(e) = supervisor::trust(&self.spec, &self.options, offered).await
        {
            tracing::warn!("cannot save the new head's host key: {}", e.what);
        }
    }

    /// Starts Ray again on manually added workers. TPU VMs do that on their own unless their startup script has
    /// stopped. A failure on one worker is reported and does not affect the others.
    pub(super) async fn rejoin(&self, missing: &[String], tell: &mpsc::UnboundedSender<Progress>) {
        let say = |words: String| drop(tell.send(Progress::Output(words)));
        let session = match self.connect().await {
            Ok(session) => session,
            Err(p) => return say(p.what),
        };
        let head = worker::head_address(&session.client).await;
        match (head, self.launcher().await) {
            (Ok(head), Ok(launcher)) => {
                for host in missing {
                    say(format!("starting Ray on {}", Text::from(host.as_str())));
                    if let Err(p) = launcher.start(host, &head, session.token.as_ref()).await {
                        say(p.in_commands(Target::of(&self.spec.name)));
                    }
                }
            }
            (Err(p), _) | (_, Err(p)) => say(p.in_commands(Target::of(&self.spec.name))),
        }
    }
}
