//! A directory of cluster files: one table, templates, the files generated from them, and the rules that validate them.
//!
//! It contains no data of any cluster: names, zones and TPUs all come from the table.

mod buckets;
mod generated;
mod generation;
mod image;
mod render;
mod table;
mod validate;

pub use buckets::named as named_buckets;
pub use generated::{PlanError, Planned, State, is_generated, plan, replace, write};
pub use generation::{Generation, WorkerType};
pub use image::with_tag;
pub use render::{TemplateError, render};
pub use table::{FILE, Row, Source, Sourced, Table};
pub use validate::{Finding, Severity, validate, validate_plan};
