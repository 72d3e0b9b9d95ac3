//! Read access to the console's state for rendering, commands and pages.

use super::{
    App, CellContext, Cluster, Context, Dialog, Fleet, Keymap, LogView, Pages, Pane, Prompt, Toasts, View,
};
use crate::app::action::fixes::HintContext;
use crate::app::pages::page::Page;
use crate::app::screen::areas::Areas;
use crate::app::table::list::Listing;
use crate::model::{Hint, PaneLayout, Timestamp};

impl App {
    /// The data of all clusters.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The state of each page.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// What cells depend on besides their row.
    pub fn cell_context(&self, now: Timestamp) -> CellContext<'_> {
        CellContext {
            fleet: &self.fleet,
            marks: &self.marks,
            messages: &self.toasts,
            keymap: &self.keyboard.keymap,
            hint_context: self.hint_context(),
            now,
            fresh: self.fresh(),
            version: self.version,
        }
    }

    pub(super) fn hint_context(&self) -> HintContext<'_> {
        HintContext {
            keymap: &self.keyboard.keymap,
            read_only: self.settings.read_only,
            page: self.page_context(),
        }
    }

    /// The hint as the page shows it, also under a dialog.
    pub fn hint(&self, hint: &Hint) -> String {
        self.hint_in(hint, Some(self.page_context()))
    }

    /// The hint as the open dialog shows it.
    pub fn dialog_hint(&self, hint: &Hint) -> String {
        self.hint_in(hint, Some(self.context()))
    }

    /// The hint for a dialog of this context that is about to be opened; with `None`, for a message, which stays while
    /// pages change.
    pub(super) fn hint_in(&self, hint: &Hint, here: Option<Context>) -> String {
        self.hint_context().hint(hint, here)
    }

    /// The page on the screen.
    pub fn view(&self) -> &View {
        self.stack.page()
    }

    /// The pages from the first to the one on the screen.
    pub fn stack(&self) -> &[View] {
        self.stack.pages()
    }

    /// The focused pane of a cluster's page; it stays when the page changes.
    pub fn pane(&self) -> Pane {
        self.split.focused
    }

    /// The cluster that the page on the screen belongs to.
    pub fn current(&self) -> Option<&Cluster> {
        self.fleet.clusters.get(self.view().cluster_index()?)
    }

    /// The state of the page on the screen.
    pub(super) fn page(&self) -> Option<&dyn Page> {
        self.pages.page(self.stack.page())
    }

    /// Mutable access to the page on the screen, with the fleet and the drawn areas.
    pub(super) fn page_mut(&mut self) -> Option<(&mut dyn Page, &Fleet, &Areas)> {
        Some((self.pages.page_mut(self.stack.page_mut()?)?, &self.fleet, &self.areas))
    }

    /// The focused table.
    pub fn listing(&self) -> Option<&dyn Listing> {
        self.page()?.listing(self.split.focused)
    }

    /// Mutable access to the focused table, with the fleet that contains its rows.
    pub(super) fn listing_mut(&mut self) -> Option<(&mut dyn Listing, &Fleet)> {
        let pane = self.split.focused;
        let (page, fleet, _) = self.page_mut()?;
        Some((page.listing_mut(pane)?, fleet))
    }

    /// All clusters, in listed order.
    pub fn clusters(&self) -> &[Cluster] {
        &self.fleet.clusters
    }

    /// The log of the cluster on the screen.
    pub fn log(&self) -> Option<&LogView> {
        self.pages.cluster.get(self.view().cluster_index()?).map(|page| &page.log)
    }

    /// Mutable access to that log.
    pub(super) fn log_mut(&mut self) -> Option<&mut LogView> {
        let cluster_index = self.view().cluster_index()?;
        self.pages.cluster.get_mut(cluster_index).map(|page| &mut page.log)
    }

    /// Whether the focused pane fills the window.
    pub fn is_zoomed(&self) -> bool {
        self.split.is_zoomed
    }

    /// How a cluster's page is divided into panes.
    pub fn panes(&self) -> PaneLayout {
        self.split.layout
    }

    /// The open dialog, if any.
    pub fn dialog(&self) -> Option<&Dialog> {
        self.dialog.as_ref()
    }

    /// The open prompt, if any.
    pub fn prompt(&self) -> Option<&Prompt> {
        self.prompt.as_ref()
    }

    /// The answer to the last key if it is not available in the open dialog; empty otherwise.
    pub fn note(&self) -> &str {
        if self.dialog.is_some() { &self.note } else { "" }
    }

    /// The current and past messages.
    pub fn toasts(&self) -> &Toasts {
        &self.toasts
    }

    /// The keymap in effect.
    pub fn keymap(&self) -> &Keymap {
        &self.keyboard.keymap
    }
}
