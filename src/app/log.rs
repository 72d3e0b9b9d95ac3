//! The log pane: what is held of the log, where one is in it, and what is searched for.

mod find;
mod folded;
mod lens;
mod moments;
#[cfg(test)]
mod sample;
mod scroll;
mod seek;
mod show;
mod times;
mod view;
mod wanted;
mod whole;
mod window;

pub use find::{Landmark, Step};
pub use lens::Filter;
pub use show::Show;
pub use times::{Dated, Since};
pub use view::{LogView, Older};
pub use wanted::{CONTEXT, Wanted};
pub use whole::Place;
pub use window::{Window, pieces};
