//! A log as a page.

use super::view::LogView;
use super::window::Window;
use crate::app::fleet::Fleet;
use crate::app::pages::page::Page;
use crate::app::screen::areas::Areas;
use crate::app::screen::pane::Pane;

impl Page for LogView {
    fn scroll(&mut self, _fleet: &Fleet, _pane: Pane, by: isize) {
        // The method of the view, which has the same name.
        Self::scroll(self, by);
    }

    fn page_height(&self, _areas: &Areas, _pane: Pane) -> usize {
        self.page()
    }

    fn measure(&mut self, areas: &Areas) {
        if let Some(area) = areas.log {
            self.resize(Window { width: area.width.into(), height: area.height.into() });
        }
    }
}
