//! The log pane: the loaded lines of the log, the position in it, and the search.

pub(super) mod export;
pub(super) mod follow;
pub(super) mod keys;
pub(super) mod open;
pub(super) mod open_several;
pub(super) mod results;
pub(super) mod search_clusters;
pub(super) mod search_host;

mod find;
mod folded;
mod joined;
mod line_filter;
mod moments;
mod page;
#[cfg(test)]
mod sample;
mod scroll;
mod seek;
mod several;
mod show;
mod times;
mod view;
mod wanted;
mod whole;
mod window;

pub use find::{Landmark, Step};
pub use line_filter::Filter;
pub use moments::JumpError;
pub use show::Show;
pub use times::{Dated, Since};
pub use view::{LogView, Older, Opened};
pub use wanted::{CONTEXT_LINES, LineTarget};
pub use whole::MatchPosition;
pub use window::{Window, pieces};
