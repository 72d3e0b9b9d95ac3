//! Actions on a cluster's TPUs: list, log in, delete preempted ones.

use crate::app::screen::dialog::{Dialog, Question};
use crate::app::text::toast::Cause;
use crate::app::{App, Context, Effect, MessageKind, View};
use crate::model::amount::grouped;
use crate::model::cloud::TpuHost;
use crate::model::{Cleaned, Hint, Leftover, Problem, ProblemKind, Provider, Request, Timestamp};
use crate::state::ClusterState;

/// Maximum number of lines in a dialog's list.
const MAX_LINES: usize = 12;

impl App {
    /// Shows the TPUs of the target cluster, and requests them from Google.
    pub(in crate::app) fn open_tpus(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(cluster_index) = self.target_cluster_index() else { return Vec::new() };
        let spec = &self.fleet.clusters[cluster_index].spec;
        if spec.provider != Provider::Gcp {
            let (name, provider) = (&spec.name, spec.provider);
            let text = format!(
                "TPUs are only shown for Google Cloud clusters; the provider of {name} is {provider}"
            );
            self.toasts.answer(text, now);
            return Vec::new();
        }
        self.open_page(View::Tpus(cluster_index))
    }

    /// Logs in to the selected row's host: the first that is missing in Ray, else the first.
    pub(in crate::app) fn ssh_tpu(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(cluster) = self.tpus() else { return Vec::new() };
        let Some(row) = self.target_tpu() else { return Vec::new() };
        let is_missing = |h: &&TpuHost| row.missing.contains(&h.internal);
        let reached = || row.logins.iter().filter(|h| !h.internal.is_empty() || h.external.is_some());
        let host = reached().find(is_missing).or_else(|| reached().next());
        let why = match (row.status.ended(), host) {
            (Some(ended), _) => format!("{} was {ended}: there is no host to log in to", row.name),
            (None, None) => format!("{} has no address", row.name),
            (None, Some(host)) => return vec![Effect::SshHost(cluster.name().clone(), host.clone())],
        };
        self.toasts.answer(why, now);
        Vec::new()
    }

    /// Asks for confirmation before preempted TPUs are deleted.
    pub(in crate::app) fn ask_to_clean(&mut self, now: Timestamp) {
        let Some(cluster) = self.target_cluster() else { return };
        let left = cluster.tpus.leftovers().to_vec();
        if cluster.cleaning {
            self.toasts.report(
                MessageKind::Info,
                format!("{}: preempted TPUs are already being deleted", cluster.name()),
                now,
            );
            return;
        }
        if left.is_empty() {
            self.toasts.answer("no preempted TPUs to delete", now);
            return;
        }
        let row = |label: &str, text: String| (label.to_owned(), text);
        let chips: u32 = left.iter().map(|l| l.chips).sum();
        let mut rows =
            vec![row("cluster", cluster.name().to_string()), row("chips", grouped(chips as usize))];
        let named = left
            .iter()
            .take(MAX_LINES)
            .map(|l| row(l.kind.label(), format!("{}  {}", l.name, l.accelerator_type)));
        rows.extend(named);
        if left.len() > MAX_LINES {
            rows.push(row(" ", format!("and {} more", left.len() - MAX_LINES)));
        }
        rows.push(row("", String::new()));
        rows.push(row(
            "",
            "Each is checked again right before it is deleted; one that has recovered is kept.".into(),
        ));
        let title = format!("Delete preempted TPUs on {}?", cluster.name());
        let question = Question::CleanPreempted { cluster: cluster.name().clone(), left };
        self.dialog = Some(Dialog::ask(question, title, rows, "Delete preempted TPUs"));
    }

    /// Deletes them after the confirmation.
    pub(in crate::app) fn begin_cleaning(
        &mut self,
        cluster_index: usize,
        left: Vec<Leftover>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let cluster = &mut self.fleet.clusters[cluster_index];
        cluster.cleaning = true;
        let name = cluster.name().clone();
        self.toasts.report(
            MessageKind::Info,
            format!("{name}: deleting preempted TPUs; a large slice takes several minutes"),
            now,
        );
        vec![Effect::Ask(name, Request::CleanPreempted(left))]
    }

    pub(in crate::app) fn apply_cloud(
        &mut self,
        cluster_index: usize,
        before: &ClusterState,
        now: Timestamp,
    ) {
        let cluster = &self.fleet.clusters[cluster_index];
        let name = cluster.name().clone();
        match cluster.tpus.problem() {
            // One Google login is used for all clusters, so one message is enough.
            Some(problem) if problem.kind == ProblemKind::Login => {
                let why = problem.joined(&self.hint_in(&problem.hint, None));
                self.report_of_cluster(&name, Cause::Google, &format!("cannot list TPUs: {why}"), now);
            }
            Some(_) => {}
            None => self.toasts.clear_note(&name, Cause::Google),
        }
        let cluster = &self.fleet.clusters[cluster_index];
        let changed =
            before.tpus.rows() != cluster.tpus.rows() || before.tpus.problem() != cluster.tpus.problem();
        if before.findings != cluster.findings {
            self.rearrange(cluster_index);
        }
        let is_shown = match self.page_context() {
            Context::AllTpus => true,
            _ => *self.view() == View::Tpus(cluster_index),
        };
        if is_shown && !self.is_frozen() {
            self.arrange_page();
        }
        // If the TPUs are on the screen, so is the age of the answer.
        let on_screen = self.view().cluster_index().is_none_or(|shown| shown == cluster_index);
        self.dirty |= is_shown || (changed && on_screen);
    }

    pub(in crate::app) fn apply_cleaned(
        &mut self,
        cluster_index: usize,
        done: Result<Vec<(Leftover, Cleaned)>, Problem>,
        now: Timestamp,
    ) {
        let cluster = &mut self.fleet.clusters[cluster_index];
        cluster.cleaning = false;
        let name = cluster.name().clone();
        let (tone, text) = match done {
            Err(problem) => (MessageKind::Bad, problem.joined(&self.hint_in(&problem.hint, None))),
            Ok(done) => outcome(&done, |hint| self.hint_in(hint, None)),
        };
        self.toasts.report(tone, format!("{name}: {text}"), now);
        self.dirty = true;
    }
}

fn outcome(done: &[(Leftover, Cleaned)], words: impl Fn(&Hint) -> String) -> (MessageKind, String) {
    let count = |is: fn(&Cleaned) -> bool| done.iter().filter(|(_, c)| is(c)).count();
    let deleted = count(|c| matches!(c, Cleaned::Deleted | Cleaned::AlreadyGone));
    let alone = count(|c| matches!(c, Cleaned::Skipped(_)));
    let failed = done.iter().filter(|(_, c)| !c.is_well()).collect::<Vec<_>>();
    let alone = if alone > 0 { format!(", {alone} kept") } else { String::new() };
    let text = format!("{deleted} of {} deleted{alone}", done.len());
    match failed.first() {
        None => (MessageKind::Good, text),
        Some((leftover, cleaned)) => {
            let more =
                if failed.len() > 1 { format!(" (and {} more)", failed.len() - 1) } else { String::new() };
            (MessageKind::Bad, format!("{text}; {} {}{more}", leftover.name, cleaned.text(words)))
        }
    }
}
