//! Operations: what is done to a whole cluster, step by step, so that it can be interrupted anywhere and resumed.
//!
//! Must never trust an exit code: a step is done when its effect is seen. What it needs later stands in the journal
//! before it is needed.

mod audit;
mod backup;
mod cluster;
mod desk;
mod folder;
mod journal;
mod preview;
mod standing;
mod submit;

pub use audit::{Audit, Entry};
pub use backup::{Backed, Kept, Restored, back_up, restore};
pub use cluster::{Facts, Performer, preflight};
pub use desk::{Desk, Ready};
pub use journal::{Journal, JournalError, Unfinished};
pub use preview::preview;
pub use standing::standing;
pub use submit::{Unfit, Upload, Wanted, prepared, upload};
