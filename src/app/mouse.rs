//! The mouse: what a click or a turn of the wheel does where it is.

use super::areas::Area;
use super::table::By;
use super::{Action, App, Dialog, Effect, Pane, View};
use crate::model::Timestamp;
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

/// Rows a turn of the wheel moves.
const WHEEL: isize = 3;

impl App {
    pub(super) fn mouse(&mut self, mouse: MouseEvent, now: Timestamp) -> Vec<Effect> {
        let by = match mouse.kind {
            MouseEventKind::ScrollDown => WHEEL,
            MouseEventKind::ScrollUp => -WHEEL,
            MouseEventKind::Down(MouseButton::Left) => 0,
            _ => return Vec::new(),
        };
        if self.areas.is_too_small {
            return Vec::new();
        }
        self.dirty = true;
        let (column, row) = (mouse.column, mouse.row);
        if let (Some(prompt), Some((area, top))) = (&self.prompt, self.areas.offers)
            && prompt.kind.has_list()
        {
            return self.mouse_in_palette(column, row, by, (area, top), now);
        }
        let is_there = |area: &Area| by == 0 && area.contains(column, row);
        if let Some((action, _)) = self.areas.hints.iter().find(|(_, area)| is_there(area)) {
            return self.act(*action, now);
        }
        if let (Some(dialog), Some(area)) = (&mut self.dialog, self.areas.dialog) {
            dialog.scroll(by);
            let pressed = self.areas.buttons.filter(|_| by == 0).and_then(|buttons| {
                buttons.iter().position(|b| b.contains(column, row)).map(|button| button == 1)
            });
            if let Some(yes) = pressed {
                dialog.focus_button(yes);
                return self.act(Action::Open, now);
            }
            // A click outside closes texts and questions, but not forms: typed text is kept.
            let typed = matches!(dialog, Dialog::Form(_) | Dialog::Worker(_));
            return if by == 0 && !typed && !area.contains(column, row) {
                self.act(Action::Back, now)
            } else {
                Vec::new()
            };
        }
        match self.view() {
            View::Cluster(_) => {
                let tab = self.areas.tabs.iter().find(|(_, area)| is_there(area)).map(|(pane, _)| *pane);
                match tab {
                    Some(pane) => {
                        self.prompt = None;
                        self.focus(pane)
                    }
                    None => self.mouse_in_panes(column, row, by),
                }
            }
            View::Log(_) | View::Details(_) if by != 0 => self.step(by),
            View::Log(_) | View::Details(_) => Vec::new(),
            _ => self.mouse_in_table(column, row, by, now),
        }
    }

    /// The wheel chooses in the list, wherever it is turned; a click on a line runs it, and one outside closes the list.
    fn mouse_in_palette(
        &mut self,
        column: u16,
        row: u16,
        by: isize,
        (area, top): (Area, usize),
        now: Timestamp,
    ) -> Vec<Effect> {
        let of = self.offers().len();
        let Some(prompt) = &mut self.prompt else { return Vec::new() };
        if by != 0 {
            prompt.choose(by > 0, of);
        } else if area.contains(column, row) {
            (prompt.chosen, prompt.is_chosen) = (top + usize::from(row - area.y), true);
            return self.enter_command(now);
        } else {
            self.prompt = None;
        }
        Vec::new()
    }

    /// A click on a title sorts by it; on a row it selects the row, on the selected one it opens it.
    fn mouse_in_table(&mut self, column: u16, row: u16, by: isize, now: Timestamp) -> Vec<Effect> {
        let Some(table) = self.areas.table_of(None) else { return Vec::new() };
        if let Some(head) = table.head_at(column, row).filter(|_| by == 0) {
            return self.sort(By::Shown(head));
        }
        let area = table.rows;
        if !area.contains(column, row) {
            return Vec::new();
        }
        if by != 0 {
            return self.step(by);
        }
        self.prompt = None;
        let Some((listing, fleet)) = self.listing_mut() else { return Vec::new() };
        let position = listing.window(area.height.into()) + usize::from(row - area.y);
        if position == listing.cursor() && position < listing.len() {
            return self.act(Action::Open, now);
        }
        listing.go(fleet, position);
        Vec::new()
    }

    fn mouse_in_panes(&mut self, column: u16, row: u16, by: isize) -> Vec<Effect> {
        let titled = |pane: &Pane| self.areas.table_of(Some(*pane)).and_then(|t| t.head_at(column, row));
        let sorted = Pane::ALL.into_iter().find_map(|pane| Some((pane, titled(&pane)?)));
        if let Some((pane, head)) = sorted.filter(|_| by == 0) {
            self.pane = pane;
            return self.sort(By::Shown(head));
        }
        let hit = Pane::ALL
            .into_iter()
            .find_map(|pane| Some((self.areas.pane(pane).filter(|a| a.contains(column, row))?, pane)));
        let Some((area, pane)) = hit else { return Vec::new() };
        if by != 0 {
            return self.scroll(pane, by);
        }
        // The prompt belongs to the pane that had the focus.
        self.prompt = None;
        self.pane = pane;
        if let Some((listing, fleet)) = self.listing_mut() {
            let position = listing.window(area.height.into()) + usize::from(row - area.y);
            listing.go(fleet, position);
        }
        Vec::new()
    }
}
