//! The page of a cluster's TPUs: slices and requests, and below them the node types of its file.

use super::page::Page;
use super::tpu_table::TpuTable;
use crate::app::fleet::Fleet;
use crate::app::screen::areas::Areas;
use crate::app::screen::pane::Pane;
use crate::app::screen::scroll::Scroll;
use crate::app::table::list::{List, Listing};

/// The page of a cluster's TPUs.
#[derive(Debug)]
pub struct TpusPage {
    /// The slices and requests.
    pub list: List<TpuTable>,
    /// The scroll position of the node types below them.
    pub types: Scroll,
}

impl TpusPage {
    /// The page of the cluster at this index.
    pub fn new(cluster_index: usize) -> Self {
        Self { list: List::new(Some(cluster_index)).holding_top(), types: Scroll::default() }
    }
}

impl Page for TpusPage {
    fn listing(&self, _pane: Pane) -> Option<&dyn Listing> {
        Some(&self.list)
    }

    fn listing_mut(&mut self, _pane: Pane) -> Option<&mut dyn Listing> {
        Some(&mut self.list)
    }

    /// After the last row, the node types scroll, and they scroll back before the cursor moves up again.
    fn scroll(&mut self, fleet: &Fleet, _pane: Pane, by: isize) {
        let below = self.list.len().saturating_sub(self.list.cursor() + 1);
        let above = self.types.top();
        let (rows, lines) = if by > 0 {
            (by, by.saturating_sub_unsigned(below).max(0))
        } else {
            (by.saturating_add_unsigned(above).min(0), by)
        };
        self.types.step(lines);
        self.list.step(fleet, rows);
    }

    fn measure(&mut self, areas: &Areas) {
        if let Some(table) = &areas.table {
            self.list.drawn(table);
        }
        self.types.drawn(areas.tpu_types_last);
    }
}
