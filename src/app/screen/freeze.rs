//! Freezing the screen: pages read the fleet as it was, while events are applied to the live fleet behind it.

use crate::app::event::IntoEffects;
use crate::app::screen::frozen::Frozen;
use crate::app::{Action, App, Effect, MessageKind};
use crate::model::Timestamp;
use crate::model::sort;
use std::mem;

impl App {
    /// Freezes the screen, or returns to live data.
    pub(in crate::app) fn toggle_freeze(&mut self, now: Timestamp) {
        if self.is_frozen() {
            self.unfreeze(now);
            return;
        }
        let open = self.pages.cluster.iter().enumerate();
        let logs = open.filter_map(|(cluster_index, page)| Some((cluster_index, page.log.after_this(now)?)));
        let logs = sort::collected(logs);
        self.frozen = Some(Box::new(Frozen { since: now, live: self.fleet.clone(), logs }));
    }

    /// Whether the screen is frozen.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// When the screen was frozen; `None` while it shows live data.
    pub fn frozen_since(&self) -> Option<Timestamp> {
        self.frozen.as_ref().map(|frozen| frozen.since)
    }

    /// Returns to live data. Cursors stay on their rows.
    pub(in crate::app) fn unfreeze(&mut self, now: Timestamp) {
        let Some(frozen) = self.frozen.take() else { return };
        let shown = mem::replace(&mut self.fleet, frozen.live);
        for (live, shown) in self.fleet.clusters.iter_mut().zip(shown.clusters) {
            // Values that depend on the page on the screen were updated in the fleet that was shown.
            (live.poll_intervals.0, live.watched) = (shown.poll_intervals.0, shown.watched);
            live.job_workers.show_as(&shown.job_workers);
        }
        for (cluster_index, log) in frozen.logs {
            self.pages.cluster[cluster_index].go_on_with(&self.fleet, log, now);
        }
        for (cluster_index, cluster) in self.fleet.clusters.iter().enumerate() {
            self.marks.keep(cluster_index, &cluster.snapshot.jobs);
        }
        self.arrange_fleet();
        self.arrange_page();
        self.dirty = true;
    }

    /// Applies an event: on a frozen screen, to the live fleet behind it.
    pub(in crate::app) fn behind<R: IntoEffects>(
        &mut self,
        take: impl FnOnce(&mut Self) -> R,
    ) -> Vec<Effect> {
        self.swap_fleets();
        let effects = take(self);
        self.swap_fleets();
        effects.into_effects()
    }

    /// Swaps the shown fleet with the live one.
    fn swap_fleets(&mut self) {
        if let Some(frozen) = &mut self.frozen {
            mem::swap(&mut self.fleet, &mut frozen.live);
        }
    }

    /// Why an action is refused now, if it changes a cluster: in short, and in full.
    pub(in crate::app) fn refusal(&self, action: Action) -> Option<(&'static str, String)> {
        if action.changes_a_cluster() { self.refusal_of_changes() } else { None }
    }

    /// Why actions that change a cluster are refused now.
    pub(in crate::app) fn refusal_of_changes(&self) -> Option<(&'static str, String)> {
        if self.settings.read_only {
            let why = "read-only (--read-only, or `read_only` in the settings)".to_owned();
            Some(("in read-only mode", why))
        } else if self.is_frozen() {
            let key = self.keyboard.keymap.key_of(Action::Freeze);
            Some((
                "while the screen is frozen",
                format!("the screen is frozen; press {key} to return to live data, then try again"),
            ))
        } else {
            None
        }
    }

    /// Reports that an action is refused, and why. Returns whether it is.
    pub(in crate::app) fn is_refused(&mut self, action: Action, now: Timestamp) -> bool {
        let Some((_, why)) = self.refusal(action) else { return false };
        self.toasts.report(MessageKind::Bad, format!("{} refused: {why}", action.describe().name), now);
        true
    }
}
