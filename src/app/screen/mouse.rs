//! The mouse: the effect of clicks and of the wheel, by position.

use crate::app::screen::areas::Area;
use crate::app::table::By;
use crate::app::{Action, App, Dialog, Effect, Pane, View};
use crate::model::{Layout, Timestamp};
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

/// Rows per step of the wheel.
const WHEEL: isize = 3;

impl App {
    pub(in crate::app) fn mouse(&mut self, mouse: MouseEvent, now: Timestamp) -> Vec<Effect> {
        let (column, row) = (mouse.column, mouse.row);
        let by = match mouse.kind {
            MouseEventKind::ScrollDown => WHEEL,
            MouseEventKind::ScrollUp => -WHEEL,
            MouseEventKind::Down(MouseButton::Left) => {
                self.split.grip = None;
                0
            }
            MouseEventKind::Drag(MouseButton::Left) => {
                self.drag(column, row);
                return Vec::new();
            }
            MouseEventKind::Up(MouseButton::Left) => return self.drop_grip(),
            _ => return Vec::new(),
        };
        if self.areas.is_too_small {
            return Vec::new();
        }
        self.dirty = true;
        if let Some(effects) = self.mouse_in_palette(column, row, by, now) {
            return effects;
        }
        let is_there = |area: &Area| by == 0 && area.contains(column, row);
        if let Some((action, _)) = self.areas.hints.iter().find(|(_, area)| is_there(area)) {
            return self.act(*action, now);
        }
        if let (Some(_), Some(area)) = (&self.dialog, self.areas.dialog) {
            return self.mouse_in_dialog((column, row), by, area, now);
        }
        let grip = self.areas.seams.filter(|_| by == 0).and_then(|seams| seams.grip(column, row));
        if let Some(grip) = grip {
            self.split.grip = Some((grip, self.split.layout));
            return Vec::new();
        }
        match self.view() {
            View::Cluster(_) => {
                let tab = self.areas.tabs.iter().find(|(_, area)| is_there(area)).map(|(pane, _)| *pane);
                match tab {
                    Some(pane) => {
                        self.prompt = None;
                        return self.focus(pane);
                    }
                    None => self.mouse_in_panes(column, row, by),
                }
            }
            View::JobWorkers(_) => match self.areas.worker_tabs.iter().find(|(_, area)| is_there(area)) {
                Some((way, _)) => {
                    let way = *way;
                    self.prompt = None;
                    self.turn_workers(way);
                }
                None => return self.mouse_in_table(column, row, by, now),
            },
            View::Log(_) | View::Operation(_) | View::Details(_) if by != 0 => self.step(by),
            View::Details(_) => return self.mouse_in_lines(column, row, now),
            View::Log(_) | View::Operation(_) => {}
            _ => return self.mouse_in_table(column, row, by, now),
        }
        Vec::new()
    }

    /// A click in the palette chooses an entry, or runs it if it is already chosen; a click outside closes the palette,
    /// as Esc does. `None` if the palette is not open, or if the wheel is used outside it.
    fn mouse_in_palette(&mut self, column: u16, row: u16, by: isize, now: Timestamp) -> Option<Vec<Effect>> {
        let offers = self.offers();
        let prompt = self.prompt.as_mut().filter(|prompt| prompt.kind.has_list())?;
        let (frame, rows) = self.areas.palette?;
        match (by, rows.at(column, row)) {
            (0, Some(chosen)) if prompt.chosen_offer(&offers) == Some(chosen) => {
                return Some(self.enter_command(now));
            }
            (0, Some(chosen)) => prompt.choose_at(chosen, offers),
            (0, None) if !frame.contains(column, row) => self.prompt = None,
            (0, None) => {}
            _ if frame.contains(column, row) => prompt.choose(by > 0, offers),
            _ => return None,
        }
        Some(Vec::new())
    }

    /// A click on a button presses it; a click on a row focuses it; a click on a focused option toggles it.
    fn mouse_in_dialog(
        &mut self,
        (column, row): (u16, u16),
        by: isize,
        area: Area,
        now: Timestamp,
    ) -> Vec<Effect> {
        let Some(dialog) = &mut self.dialog else { return Vec::new() };
        if by != 0 {
            dialog.scroll(by);
            return Vec::new();
        }
        let mut buttons = self.areas.buttons.into_iter().flatten();
        if let Some(button) = buttons.position(|button| button.contains(column, row)) {
            dialog.focus_button(button == 1);
            return self.act(Action::Open, now);
        }
        if let Some(clicked) = self.areas.dialog_rows.and_then(|rows| rows.at(column, row)) {
            return if dialog.focus_row(clicked) { self.act(Action::Mark, now) } else { Vec::new() };
        }
        let control = self
            .areas
            .controls
            .iter()
            .find(|(line, _)| line.contains(column, row))
            .map(|(_, control)| *control);
        if let (Dialog::Plan(plan), Some(control)) = (&mut *dialog, control) {
            if plan.control == control {
                return self.act(Action::Mark, now);
            }
            plan.focus(control);
            return Vec::new();
        }
        // A click outside closes texts and questions, but not forms, so that typed text is kept.
        let is_form = matches!(dialog, Dialog::Form(_) | Dialog::Worker(_));
        if is_form || area.contains(column, row) { Vec::new() } else { self.act(Action::Back, now) }
    }

    /// Drags the grabbed borders.
    fn drag(&mut self, column: u16, row: u16) {
        if let (Some((grip, _)), Some(seams)) = (self.split.grip, self.areas.seams) {
            let panes = seams.dragged(self.split.layout, grip, column, row);
            self.dirty |= panes != self.split.layout;
            self.split.layout = panes;
        }
    }

    /// Releases the borders; if they were moved, the layout is saved.
    fn drop_grip(&mut self) -> Vec<Effect> {
        let is_moved = self.split.grip.take().is_some_and(|(_, before)| before != self.split.layout);
        let layout = Layout { panes: Some(self.split.layout), ..Layout::default() };
        if is_moved { vec![Effect::Remember(layout)] } else { Vec::new() }
    }

    /// A click on a title sorts by it; a click on a row selects it, or opens it if it is already selected.
    fn mouse_in_table(&mut self, column: u16, row: u16, by: isize, now: Timestamp) -> Vec<Effect> {
        let Some(table) = self.areas.table_of(None) else { return Vec::new() };
        if let Some(head) = table.head_at(column, row).filter(|_| by == 0) {
            self.sort(By::Shown(head));
            return Vec::new();
        }
        let area = table.rows;
        if !area.contains(column, row) {
            return Vec::new();
        }
        if by != 0 {
            self.step(by);
            return Vec::new();
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

    /// A click on a row of a details page selects it, or opens it if it is already selected.
    fn mouse_in_lines(&mut self, column: u16, row: u16, now: Timestamp) -> Vec<Effect> {
        let area = self.areas.details.filter(|area| area.contains(column, row));
        let Some((area, page)) = area.zip(self.stack.details_mut()) else { return Vec::new() };
        let Some(was_selected) = page.cursor.click(usize::from(row - area.y)) else { return Vec::new() };
        self.prompt = None;
        if was_selected { self.act(Action::Open, now) } else { Vec::new() }
    }

    /// Gives a pane the focus. A prompt belongs to the previously focused pane.
    fn focus_by_click(&mut self, pane: Pane) {
        self.prompt = None;
        self.split.focused = pane;
    }

    fn mouse_in_panes(&mut self, column: u16, row: u16, by: isize) {
        let titled = |pane: &Pane| self.areas.table_of(Some(*pane)).and_then(|t| t.head_at(column, row));
        let sorted = Pane::ALL.into_iter().find_map(|pane| Some((pane, titled(&pane)?)));
        if let Some((pane, head)) = sorted.filter(|_| by == 0) {
            self.focus_by_click(pane);
            return self.sort(By::Shown(head));
        }
        let hit = Pane::ALL
            .into_iter()
            .find_map(|pane| Some((self.areas.pane(pane).filter(|a| a.contains(column, row))?, pane)));
        let Some((area, pane)) = hit else { return };
        if by != 0 {
            self.scroll(pane, by);
            return;
        }
        self.focus_by_click(pane);
        if let Some((listing, fleet)) = self.listing_mut() {
            let position = listing.window(area.height.into()) + usize::from(row - area.y);
            listing.go(fleet, position);
        }
    }
}
